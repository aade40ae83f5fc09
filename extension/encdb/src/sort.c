/*
 * sort.c
 *	  Support function 2 of a B-tree: sorting without a call of the function manager, and, in the
 *	  isolated form, without a request, for each comparison.
 *
 * The inline form sorts by the first 8 bytes of the plain values' order, as
 * text and numeric do: the backend that holds them holds the key as well.
 *
 * In the isolated form no part of a value may come here. There a sort's
 * abbreviated keys are the numbers of its cells, of which copies are kept until
 * the first two are to be compared: then the evaluator is asked for the ranks of
 * all that have come (a sort in memory asks once, one on disk once a run).
 * Ranks tell what the sort's result shows, and nothing else. Cells without a
 * rank are equal by their abbreviated keys, and so are compared in full.
 */
#include "encdb.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"

#if SIZEOF_DATUM != 8
#error "encdb needs a PostgreSQL whose datums have 64 bits"
#endif

#define FEWEST_CELLS	8

/* Numbers: [first, end) have ranks, [base, ncells) wait for theirs, and the others have missed them */
typedef struct Ranking
{
	MemoryContext waiting;
	const char *locale;
	uint64		first;
	uint64		end;
	uint64		base;
	uint64		ncells;
	int			allocated;
	Size		nbytes;
	Size		most_bytes;
	PgsealBytes *cells;			/* those that wait */
	uint32	   *ranks;
	bool		known_equal;	/* by their ranks: the comparison in full that follows is spared */
} Ranking;

static int
EncdbSortCompare(Datum x, Datum y, Oid collation)
{
	Cell	   *left = PG_DETOAST_DATUM_PACKED(x);
	Cell	   *right = PG_DETOAST_DATUM_PACKED(y);
	int			order = encdb_compare(left, right, collation);

	if ((Pointer) left != DatumGetPointer(x))
		pfree(left);
	if ((Pointer) right != DatumGetPointer(y))
		pfree(right);
	return order;
}

static int
SortCompare(Datum x, Datum y, SortSupport ssup)
{
	return EncdbSortCompare(x, y, ssup->ssup_collation);
}

/* Text whose collation is not known is refused, also where its keys alone are compared; other types have none */
static void
CheckCollation(Cell *cell, SortSupport ssup)
{
	if (!OidIsValid(ssup->ssup_collation))
		(void) encdb_locale_of(CellBytes(cell), ssup->ssup_collation);
}

static Datum
EncdbSortPrefix(Datum original, SortSupport ssup)
{
	Cell	   *cell = PG_DETOAST_DATUM_PACKED(original);
	uint64		prefix;

	CheckCollation(cell, ssup);
	ENCDB_CALL(pgseal_order_prefix(CellBytes(cell), &prefix));
	if ((Pointer) cell != DatumGetPointer(original))
		pfree(cell);
	return UInt64GetDatum(prefix);
}

/* Nothing is won by giving up: prefixes were cheap, and cells without ranks cost what they cost */
static bool
NeverAbort(int memtupcount, SortSupport ssup)
{
	return false;
}

static void
EncdbSortForget(Ranking *ranking)
{
	MemoryContextReset(ranking->waiting);
	ranking->base = ranking->ncells;
	ranking->allocated = 64;
	ranking->nbytes = 0;
	ranking->cells = MemoryContextAlloc(ranking->waiting, 64 * sizeof(PgsealBytes));
}

/* Keeps a copy of a cell until it is ranked; its number is the abbreviated key */
static Datum
EncdbSortNumber(Datum original, SortSupport ssup)
{
	Ranking    *ranking = ssup->ssup_extra;
	int			waiting = (int) (ranking->ncells - ranking->base);
	Cell	   *cell;
	PgsealBytes bytes;
	uint8	   *copy;

	/* More than a sort may hold: whatever waits is compared in full */
	if (ranking->nbytes > ranking->most_bytes)
	{
		EncdbSortForget(ranking);
		waiting = 0;
	}
	if (waiting == ranking->allocated)
	{
		ranking->allocated *= 2;
		ranking->cells = repalloc_huge(ranking->cells, ranking->allocated * sizeof(PgsealBytes));
	}
	cell = PG_DETOAST_DATUM_PACKED(original);
	CheckCollation(cell, ssup);
	bytes = CellBytes(cell);
	copy = MemoryContextAlloc(ranking->waiting, bytes.len);
	memcpy(copy, bytes.data, bytes.len);
	ranking->cells[waiting] = (PgsealBytes) {copy, bytes.len};
	ranking->nbytes += bytes.len + sizeof(PgsealBytes);
	if ((Pointer) cell != DatumGetPointer(original))
		pfree(cell);
	return UInt64GetDatum(ranking->ncells++);
}

/* Ranks what waits, in the place of what was ranked before */
static void
EncdbSortRank(Ranking *ranking)
{
	int			count = (int) (ranking->ncells - ranking->base);

	if (ranking->ranks)
		pfree(ranking->ranks);
	ranking->ranks = NULL;
	ranking->ranks = MemoryContextAllocHuge(GetMemoryChunkContext(ranking), count * sizeof(uint32));
	ranking->first = ranking->end = ranking->base;
	if (encdb_rank(ranking->cells, count, ranking->locale, ranking->ranks))
		ranking->end = ranking->ncells;
	EncdbSortForget(ranking);
}

static int
CompareNumbers(Datum x, Datum y, SortSupport ssup)
{
	Ranking    *ranking = ssup->ssup_extra;
	uint64		left = DatumGetUInt64(x);
	uint64		right = DatumGetUInt64(y);
	uint64		waiting = ranking->ncells - ranking->base;
	uint32		left_rank;
	uint32		right_rank;

	/* A sort that keeps the best few meets new cells one by one: they are not worth a request */
	if (Min(left, right) >= ranking->base && waiting >= FEWEST_CELLS &&
		2 * waiting >= ranking->end - ranking->first)
		EncdbSortRank(ranking);
	ranking->known_equal = false;
	if (Min(left, right) < ranking->first || Max(left, right) >= ranking->end)
		return 0;
	left_rank = ranking->ranks[left - ranking->first];
	right_rank = ranking->ranks[right - ranking->first];
	ranking->known_equal = left_rank == right_rank;
	return (left_rank > right_rank) - (left_rank < right_rank);
}

/* The sort asks this of every two whose abbreviated keys were equal, right then */
static int
CompareInFull(Datum x, Datum y, SortSupport ssup)
{
	Ranking    *ranking = ssup->ssup_extra;

	if (ranking->known_equal)
	{
		ranking->known_equal = false;
		return 0;
	}
	return EncdbSortCompare(x, y, ssup->ssup_collation);
}

static void
UsePrefixes(SortSupport ssup)
{
	ssup->abbrev_full_comparator = SortCompare;
	ssup->comparator = ssup_datum_unsigned_cmp;
	ssup->abbrev_converter = EncdbSortPrefix;
	ssup->abbrev_abort = NeverAbort;
}

static void
UseRanks(SortSupport ssup, const char *locale)
{
	Ranking    *ranking = MemoryContextAllocZero(ssup->ssup_cxt, sizeof(Ranking));

	ranking->waiting = AllocSetContextCreate(ssup->ssup_cxt, "encdb sort", ALLOCSET_DEFAULT_SIZES);
	ranking->locale = locale;
	ranking->most_bytes = Max(work_mem, maintenance_work_mem) * (Size) 1024;
	EncdbSortForget(ranking);
	ssup->ssup_extra = ranking;
	ssup->abbrev_full_comparator = CompareInFull;
	ssup->comparator = CompareNumbers;
	ssup->abbrev_converter = EncdbSortNumber;
	ssup->abbrev_abort = NeverAbort;
}

PG_FUNCTION_INFO_V1(encdb_sortsupport);
Datum
encdb_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);
	const char *locale = NULL;

	ssup->comparator = SortCompare;
	if (!ssup->abbreviate || encdb_in_analyze())
		PG_RETURN_VOID();
	/* A type without collation has none */
	if (OidIsValid(ssup->ssup_collation))
		locale = encdb_locale(ssup->ssup_collation);
	/* Sorts of bare datums have no attribute */
	if (encdb_evaluator == EVALUATOR_ISOLATED)
	{
		if (encdb_keys_are_read(ssup->ssup_attno > 0))
			encdb_sort_by_content(ssup, locale);
		else
			UseRanks(ssup, locale);
	}
	else if (!locale)
		UsePrefixes(ssup);
	PG_RETURN_VOID();
}
