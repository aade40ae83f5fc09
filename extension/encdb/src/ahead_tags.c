/*
 * ahead_tags.c
 *	  Hashing and equality by tags: 128 bits of a keyed hash of a value, which the evaluator gives for all rows that were read
 *	  ahead. A hash join and a hash aggregate compare a cell that was read now with one that was read long ago, so tags are
 *	  kept for cells, byte by byte, as long as nodes are open.
 *
 * Tags tell what hashes and comparisons of the same cells would: which are equal. Cells of different types are compared by the
 * evaluator, and so are cells of different keys unless their tags are equal: they may be of two owners, which is refused.
 */
#include "ahead.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Longer cells are asked about alone: what is kept for them would be long, too */
#define MAX_KEPT		512

/* The key's number in a cell of version 1 */
#define KEY_AT			3
#define KEY_LEN			4

/* Tags of one column, for the rows of a batch */
struct ColumnTags
{
	uint64		batch;
	uint64		epoch;
	bool		asked[MAX_AHEAD];
	PgsealTag	tags[MAX_AHEAD];
};

typedef struct KeptTag
{
	PgsealBytes cell;
	PgsealTag	tag;
	uint32		hash;
	char		status;
} KeptTag;

#define SH_PREFIX kept
#define SH_ELEMENT_TYPE KeptTag
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

static MemoryContext kept_context = NULL;
static kept_hash *kept_tags = NULL;
static uint64 kept_epoch = 0;
static Size kept_bytes = 0;

void
encdb_ahead_forget_tags(void)
{
	if (kept_context != NULL)
		MemoryContextDelete(kept_context);
	kept_context = NULL;
	kept_tags = NULL;
	kept_bytes = 0;
}

/* What was told holds for one statement */
static void
BeginKept(void)
{
	if (kept_tags != NULL && kept_epoch == encdb_epoch)
		return;
	encdb_ahead_forget_tags();
	kept_context = AllocSetContextCreate(TopMemoryContext, "encdb tags", ALLOCSET_DEFAULT_SIZES);
	kept_tags = kept_create(kept_context, 1024, NULL);
	kept_epoch = encdb_epoch;
}

/* Those that come first are kept: they are the inner side of a join, and the first rows of groups */
static void
Keep(PgsealBytes cell, const PgsealTag *tag)
{
	uint8	   *copy;
	KeptTag    *kept;
	bool		found;

	if (cell.len > MAX_KEPT || kept_bytes > get_hash_memory_limit() || kept_lookup(kept_tags, cell) != NULL)
		return;
	copy = MemoryContextAlloc(kept_context, cell.len);
	memcpy(copy, cell.data, cell.len);
	kept = kept_insert(kept_tags, (PgsealBytes) {copy, cell.len}, &found);
	kept->tag = *tag;
	kept_bytes += cell.len + 2 * sizeof(KeptTag);
}

static ColumnTags *
TagsOf(Ahead *node, int column)
{
	ColumnTags *tags = node->tags[column];

	if (tags == NULL)
		tags = node->tags[column] = MemoryContextAllocZero(node->scan.ss.ps.state->es_query_cxt, sizeof(ColumnTags));
	if (tags->batch != node->batch || tags->epoch != encdb_epoch)
	{
		memset(tags->asked, 0, sizeof(tags->asked));
		tags->batch = node->batch;
		tags->epoch = encdb_epoch;
	}
	return tags;
}

/* Has the rows from the current one on tagged; false: refused */
static bool
AskTags(Ahead *node, int column, ColumnTags *tags)
{
	static PgsealBytes cells[MAX_AHEAD];
	static PgsealTag told[MAX_AHEAD];
	int			rows[MAX_AHEAD];
	int			n = 0;
	bool		is_null;

	for (int row = node->current; row < EndOfRows(node); row++)
		if ((row == node->current || !encdb_ahead_fails(node, row)) && encdb_ahead_cell(node, row, column, &cells[n], &is_null))
			rows[n++] = row;
	if (pgseal_tag_each(cells, n, told) != 0)
		return false;
	node->requests++;
	node->cells += n;
	BeginKept();
	for (int i = 0; i < n; i++)
	{
		tags->asked[rows[i]] = true;
		tags->tags[rows[i]] = told[i];
		if (told[i].told)
			Keep(cells[i], &told[i]);
	}
	return true;
}

static bool
TagOfRow(Ahead *node, int column, PgsealTag *tag)
{
	ColumnTags *tags = TagsOf(node, column);

	if (!tags->asked[node->current] && !AskTags(node, column, tags))
		return false;
	*tag = tags->tags[node->current];
	return tag->told;
}

static bool
TagKept(PgsealBytes cell, PgsealTag *tag)
{
	KeptTag    *kept;

	if (kept_tags == NULL || kept_epoch != encdb_epoch || cell.len > MAX_KEPT)
		return false;
	kept = kept_lookup(kept_tags, cell);
	if (kept != NULL)
		*tag = kept->tag;
	return kept != NULL;
}

/* The tag of a cell that is in no row */
static bool
TagAlone(PgsealBytes cell, PgsealTag *tag)
{
	if (TagKept(cell, tag))
		return true;
	if (pgseal_tag_each(&cell, 1, tag) != 0 || !tag->told)
		return false;
	BeginKept();
	Keep(cell, tag);
	return true;
}

static bool
TagOf(Cell *cell, PgsealTag *tag)
{
	int			column;
	Ahead	   *node = encdb_ahead_node(cell, &column);

	return node ? TagOfRow(node, column, tag) : TagAlone(CellBytes(cell), tag);
}

/* Whether tags of these can tell */
static bool
AreAlike(Cell *left, Cell *right)
{
	return IsVersion1(left) && IsVersion1(right) && CellType(left) == CellType(right);
}

static bool
AreOfOneKey(Cell *left, Cell *right)
{
	return memcmp(VARDATA_ANY(left) + KEY_AT, VARDATA_ANY(right) + KEY_AT, KEY_LEN) == 0;
}

/* Whether the row that was given last has a tag in this column */
bool
encdb_ahead_has_tag(const Ahead *node, int column)
{
	const ColumnTags *tags = node->tags[column];

	return tags != NULL && tags->batch == node->batch && tags->epoch == encdb_epoch && tags->asked[node->current];
}

/* False: tags do not tell */
bool
encdb_ahead_equal(Cell *left, Cell *right, bool *equal)
{
	PgsealTag	a;
	PgsealTag	b;

	if (!AreAlike(left, right) || !TagOf(left, &a) || !TagOf(right, &b))
		return false;
	*equal = memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
	return *equal || AreOfOneKey(left, right);
}

/* The hash with seed 0; false: nothing is known of this cell */
bool
encdb_ahead_hash(Cell *cell, uint64 *hash)
{
	int			column;
	Ahead	   *node;
	PgsealTag	tag;

	if (!IsAhead())
		return false;
	node = encdb_ahead_node(cell, &column);
	if (node ? !TagOfRow(node, column, &tag) : !TagKept(CellBytes(cell), &tag))
		return false;
	*hash = 0;
	for (int i = 0; i < 8; i++)
		*hash |= (uint64) tag.bytes[i] << (8 * i);
	return true;
}
