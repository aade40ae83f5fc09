/*
 * sort_content.c
 *	  Isolated sorts whose abbreviated keys are read (distinct.c). Equal values have to have equal keys there, so all cells have
 *	  one, and every two are compared in full.
 *
 * When the first two are compared, copies of all are here: one request has them ranked, and a rank is found by the cell's bytes.
 * So is what the reader asks next, whether two neighbours are equal.
 */
#include "encdb.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Fewer than these are not worth a request about all */
#define FEWEST_CELLS	8
#define UNRANKED		UINT32_MAX

typedef struct RankedCell
{
	PgsealBytes cell;
	uint32		rank;
	uint32		hash;
	char		status;
} RankedCell;

#define SH_PREFIX content
#define SH_ELEMENT_TYPE RankedCell
#define SH_KEY_TYPE PgsealBytes
#define SH_KEY cell
#define SH_HASH_KEY(table, key) hash_bytes((key).data, (int) (key).len)
#define SH_EQUAL(table, a, b) ((a).len == (b).len && memcmp((a).data, (b).data, (a).len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(table, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The cells of a sort */
typedef struct Content
{
	MemoryContext context;
	const char *locale;
	content_hash *cells;
	uint32		nranked;
	Size		nbytes;
	Size		most_bytes;
	uint64		epoch;			/* of the ranks */
	MemoryContextCallback gone;
} Content;

/* The sort that ranked its cells last: it is being read */
static Content *readable = NULL;

static void
EncdbContentGone(void *argument)
{
	if (readable == argument)
		readable = NULL;
}

/* Keeps a copy; all cells have the same key */
static Datum
EncdbContentKeep(Datum original, SortSupport ssup)
{
	Content    *content = ssup->ssup_extra;
	Cell	   *cell = PG_DETOAST_DATUM_PACKED(original);
	PgsealBytes bytes = CellBytes(cell);
	bool		found;

	if (content->nbytes <= content->most_bytes && content_lookup(content->cells, bytes) == NULL)
	{
		uint8	   *copy = MemoryContextAlloc(content->context, bytes.len);

		memcpy(copy, bytes.data, bytes.len);
		content_insert(content->cells, (PgsealBytes) {copy, bytes.len}, &found)->rank = UNRANKED;
		content->nbytes += bytes.len + 2 * sizeof(RankedCell);
	}
	if ((Pointer) cell != DatumGetPointer(original))
		pfree(cell);
	return UInt64GetDatum(0);
}

static int
AreAlike(Datum x, Datum y, SortSupport ssup)
{
	return 0;
}

static bool
EncdbContentNever(int memtupcount, SortSupport ssup)
{
	return false;
}

/* Ranks all cells that are here; without, they are compared one by one */
static void
EncdbContentRank(Content *content)
{
	uint32		count = content->cells->members;
	PgsealBytes *cells = MemoryContextAllocHuge(content->context, count * sizeof(PgsealBytes));
	uint32	   *ranks = MemoryContextAllocHuge(content->context, count * sizeof(uint32));
	content_iterator iterator;
	RankedCell *each;
	int			n = 0;

	content_start_iterate(content->cells, &iterator);
	while ((each = content_iterate(content->cells, &iterator)) != NULL)
		cells[n++] = each->cell;
	content->nranked = count;
	if (encdb_rank(cells, n, content->locale, ranks))
	{
		for (int i = 0; i < n; i++)
			content_lookup(content->cells, cells[i])->rank = ranks[i];
		content->epoch = encdb_epoch;
		readable = content;
	}
	pfree(cells);
	pfree(ranks);
}

/* A sort that keeps the best few meets new cells one by one: they are not worth a request */
static bool
IsWorthRanking(const Content *content)
{
	uint32		waiting = content->cells->members - content->nranked;

	return waiting >= FEWEST_CELLS && 2 * waiting >= content->nranked;
}

/* The order of two cells by their ranks; false: one has none */
static bool
OrderByRank(const Content *content, Cell *left, Cell *right, int *order)
{
	RankedCell *a = content_lookup(content->cells, CellBytes(left));
	RankedCell *b = content_lookup(content->cells, CellBytes(right));

	if (content->epoch != encdb_epoch || a == NULL || b == NULL || a->rank == UNRANKED || b->rank == UNRANKED)
		return false;
	*order = (a->rank > b->rank) - (a->rank < b->rank);
	return true;
}

static int
EncdbContentCompare(Datum x, Datum y, SortSupport ssup)
{
	Content    *content = ssup->ssup_extra;
	Cell	   *left = PG_DETOAST_DATUM_PACKED(x);
	Cell	   *right = PG_DETOAST_DATUM_PACKED(y);
	int			order;

	if (IsWorthRanking(content))
		EncdbContentRank(content);
	if (!OrderByRank(content, left, right, &order))
		order = encdb_compare(left, right, ssup->ssup_collation);
	if ((Pointer) left != DatumGetPointer(x))
		pfree(left);
	if ((Pointer) right != DatumGetPointer(y))
		pfree(right);
	return order;
}

/* Whether two cells are equal that a sort gave which is being read; false: it is not known */
bool
encdb_sort_equal(Cell *left, Cell *right, bool *equal)
{
	int			order;

	if (readable == NULL || !OrderByRank(readable, left, right, &order))
		return false;
	*equal = order == 0;
	return true;
}

void
encdb_sort_by_content(SortSupport ssup, const char *locale)
{
	Content    *content = MemoryContextAllocZero(ssup->ssup_cxt, sizeof(Content));

	content->context = AllocSetContextCreate(ssup->ssup_cxt, "encdb sort by content", ALLOCSET_DEFAULT_SIZES);
	content->locale = locale;
	content->cells = content_create(content->context, 64, NULL);
	content->most_bytes = Max(work_mem, maintenance_work_mem) * (Size) 1024;
	content->gone.func = EncdbContentGone;
	content->gone.arg = content;
	MemoryContextRegisterResetCallback(content->context, &content->gone);
	ssup->ssup_extra = content;
	ssup->abbrev_full_comparator = EncdbContentCompare;
	ssup->comparator = AreAlike;
	ssup->abbrev_converter = EncdbContentKeep;
	ssup->abbrev_abort = EncdbContentNever;
}
