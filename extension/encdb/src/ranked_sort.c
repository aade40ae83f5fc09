/*
 * ranked_sort.c
 *	  The node "encdb sort", in the place of a sort with keys that are cells: it asks for the ranks of all of a key's cells, and
 *	  sorts by these numbers.
 *
 * 1. PostgreSQL's own sort gets ranks for its first key only, and not while it merges what it wrote to disk (sort.c). There each
 *	  comparison is a request. ranked_sort_plan.c says where this node is used.
 * 2. All rows are read first. Copies of the cells are kept meanwhile, up to the memory that a sort may take.
 * 3. A key whose cells take more, or that the evaluator refuses to rank, is sorted by as PostgreSQL would, which raises the
 *	  refusal if two of these cells are to be compared.
 * 4. Ranks tell what the sorted rows show: which cells of a key are equal, and their order. Of a second key they tell it of rows
 *	  with different first keys, too, as the threat model says.
 */
#include "ranked_sort.h"

#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#define FIRST_CELLS		1024

typedef struct RankedKey
{
	AttrNumber	column;
	Oid			operator;
	Oid			collation;
	bool		nulls_first;
	bool		of_cells;
	PgsealBytes *cells;			/* of all rows that are not NULL here; NULL: they are not kept (any more) */
	int			ncells;
	int			allocated;
	uint32	   *ranks;			/* NULL: the key is sorted by itself */
	AttrNumber	rank_column;	/* behind the columns of the rows */
} RankedKey;

typedef struct RankedSort
{
	CustomScanState scan;		/* first */
	PlanState  *child;
	MemoryContext context;		/* of the cells and ranks, until the rows are sorted */
	RankedKey  *keys;
	int			nkeys;
	Size		nbytes;			/* of the cells */
	Tuplesortstate *sort;		/* NULL: not sorted yet */
	TupleTableSlot *row;		/* a row with its ranks */
	int			nranked;
	uint64		cells_ranked;
} RankedSort;

static void
EncdbRankedBegin(CustomScanState *scan, EState *estate, int eflags)
{
	RankedSort *node = (RankedSort *) scan;
	CustomScan *plan = (CustomScan *) scan->ss.ps.plan;
	ListCell   *cell;

	node->child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	scan->custom_ps = list_make1(node->child);
	node->nkeys = list_length(plan->custom_private);
	node->keys = palloc0(node->nkeys * sizeof(RankedKey));
	foreach(cell, plan->custom_private)
	{
		List	   *numbers = lfirst(cell);
		RankedKey  *key = &node->keys[foreach_current_index(cell)];

		key->column = (AttrNumber) linitial_int(numbers);
		key->operator = (Oid) lsecond_int(numbers);
		key->collation = (Oid) lthird_int(numbers);
		key->nulls_first = lfourth_int(numbers) != 0;
		key->of_cells = encdb_is_of_cells(TupleDescAttr(scan->ss.ss_ScanTupleSlot->tts_tupleDescriptor, key->column - 1)->atttypid);
	}
	node->context = AllocSetContextCreate(estate->es_query_cxt, "encdb sort", ALLOCSET_DEFAULT_SIZES);
}

/* Whether a key's cells are worth to be kept. Text without a collation is compared by PostgreSQL, which refuses it */
static bool
IsRankable(const RankedKey *key, TupleDesc columns)
{
	return key->of_cells &&
		(OidIsValid(key->collation) || !OidIsValid(get_typcollation(TupleDescAttr(columns, key->column - 1)->atttypid)));
}

static void
EncdbRankedForgetCells(RankedSort *node)
{
	for (int i = 0; i < node->nkeys; i++)
	{
		node->keys[i].cells = NULL;
		node->keys[i].ranks = NULL;
		node->keys[i].ncells = 0;
	}
	MemoryContextReset(node->context);
	node->nbytes = 0;
}

static void
EncdbRankedReady(RankedSort *node, TupleDesc columns)
{
	EncdbRankedForgetCells(node);
	if (encdb_evaluator != EVALUATOR_ISOLATED)
		return;
	for (int i = 0; i < node->nkeys; i++)
		if (IsRankable(&node->keys[i], columns))
		{
			node->keys[i].allocated = FIRST_CELLS;
			node->keys[i].cells = MemoryContextAlloc(node->context, FIRST_CELLS * sizeof(PgsealBytes));
		}
}

/* Keeps the cell of a row in the current memory context, the node's */
static void
EncdbRankedKeep(RankedSort *node, RankedKey *key, TupleTableSlot *slot)
{
	bool		is_null;
	Datum		value = slot_getattr(slot, key->column, &is_null);
	PgsealBytes cell;

	if (is_null)
		return;
	if (key->ncells == key->allocated)
	{
		key->allocated *= 2;
		key->cells = repalloc_huge(key->cells, key->allocated * sizeof(PgsealBytes));
	}
	cell = CellBytes(PG_DETOAST_DATUM_PACKED(value));
	key->cells[key->ncells++] = (PgsealBytes) {memcpy(palloc(cell.len), cell.data, cell.len), cell.len};
	node->nbytes += cell.len + sizeof(PgsealBytes);
}

static void
EncdbRankedKeepCells(RankedSort *node, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(node->context);

	for (int i = 0; i < node->nkeys; i++)
		if (node->keys[i].cells != NULL)
			EncdbRankedKeep(node, &node->keys[i], slot);
	MemoryContextSwitchTo(old);
	if (node->nbytes > Max(work_mem, maintenance_work_mem) * (Size) 1024)
		EncdbRankedForgetCells(node);
}

static Tuplestorestate *
ReadRows(RankedSort *node)
{
	Tuplestorestate *rows = tuplestore_begin_heap(false, false, work_mem);
	TupleTableSlot *slot;

	EncdbRankedReady(node, node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	while (slot = ExecProcNode(node->child), !TupIsNull(slot))
	{
		CHECK_FOR_INTERRUPTS();
		EncdbRankedKeepCells(node, slot);
		tuplestore_puttupleslot(rows, slot);
	}
	return rows;
}

/* Ranks the keys whose cells are here, and gives each a column behind those of the rows */
static void
EncdbRankedAsk(RankedSort *node)
{
	MemoryContext old = MemoryContextSwitchTo(node->context);

	node->nranked = 0;
	for (int i = 0; i < node->nkeys; i++)
	{
		RankedKey  *key = &node->keys[i];
		const char *locale;
		uint32	   *ranks;

		if (key->ncells < 2)
			continue;
		locale = OidIsValid(key->collation) ? encdb_locale(key->collation) : NULL;
		ranks = palloc_extended(key->ncells * sizeof(uint32), MCXT_ALLOC_HUGE);
		if (!encdb_rank(key->cells, key->ncells, locale, ranks))
			continue;
		key->ranks = ranks;
		key->rank_column = node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts + ++node->nranked;
		node->cells_ranked += key->ncells;
	}
	MemoryContextSwitchTo(old);
}

static TupleDesc
WithRanks(const RankedSort *node)
{
	TupleDesc	columns = node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	TupleDesc	more = CreateTemplateTupleDesc(columns->natts + node->nranked);

	for (int i = 1; i <= columns->natts; i++)
		TupleDescCopyEntry(more, i, columns, i);
	for (int i = columns->natts + 1; i <= more->natts; i++)
		TupleDescInitEntry(more, i, NULL, INT8OID, -1, 0);
#if PG_VERSION_NUM >= 190000
	TupleDescFinalize(more);
#endif
	return more;
}

/* The order of numbers that is the order of a key */
static Oid
OrderOfRanks(Oid operator)
{
	TypeCacheEntry *numbers = lookup_type_cache(INT8OID, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	bool		reverse;

	(void) get_equality_op_for_ordering_op(operator, &reverse);
	return reverse ? numbers->gt_opr : numbers->lt_opr;
}

static void
EncdbRankedBeginSort(RankedSort *node, TupleDesc columns)
{
	AttrNumber *numbers = palloc(node->nkeys * sizeof(AttrNumber));
	Oid		   *operators = palloc(node->nkeys * sizeof(Oid));
	Oid		   *collations = palloc(node->nkeys * sizeof(Oid));
	bool	   *nulls_first = palloc(node->nkeys * sizeof(bool));

	for (int i = 0; i < node->nkeys; i++)
	{
		const RankedKey *key = &node->keys[i];

		numbers[i] = key->ranks ? key->rank_column : key->column;
		operators[i] = key->ranks ? OrderOfRanks(key->operator) : key->operator;
		collations[i] = key->ranks ? InvalidOid : key->collation;
		nulls_first[i] = key->nulls_first;
	}
	node->sort = tuplesort_begin_heap(columns, node->nkeys, numbers, operators, collations, nulls_first, work_mem, NULL, TUPLESORT_NONE);
}

/* Puts a row and its ranks into the slot of the sort; `at`: how many cells of each key came before */
static void
AddRanks(RankedSort *node, TupleTableSlot *from, int *at)
{
	TupleTableSlot *to = node->row;
	int			ncolumns = from->tts_tupleDescriptor->natts;

	ExecClearTuple(to);
	slot_getallattrs(from);
	memcpy(to->tts_values, from->tts_values, ncolumns * sizeof(Datum));
	memcpy(to->tts_isnull, from->tts_isnull, ncolumns * sizeof(bool));
	for (int i = 0; i < node->nkeys; i++)
	{
		const RankedKey *key = &node->keys[i];
		int			column = key->rank_column - 1;

		if (key->ranks == NULL)
			continue;
		to->tts_isnull[column] = from->tts_isnull[key->column - 1];
		to->tts_values[column] = to->tts_isnull[column] ? (Datum) 0 : Int64GetDatum(key->ranks[at[i]++]);
	}
	ExecStoreVirtualTuple(to);
}

static void
SortRows(RankedSort *node, Tuplestorestate *rows)
{
	TupleTableSlot *row = MakeSingleTupleTableSlot(node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsMinimalTuple);
	int		   *at = palloc0(node->nkeys * sizeof(int));

	while (tuplestore_gettupleslot(rows, true, false, row))
	{
		CHECK_FOR_INTERRUPTS();
		AddRanks(node, row, at);
		tuplesort_puttupleslot(node->sort, node->row);
	}
	ExecDropSingleTupleTableSlot(row);
	pfree(at);
	tuplesort_performsort(node->sort);
}

static void
EncdbRankedSort(RankedSort *node)
{
	MemoryContext old = MemoryContextSwitchTo(node->scan.ss.ps.state->es_query_cxt);
	Tuplestorestate *rows = ReadRows(node);
	TupleDesc	columns;

	EncdbRankedAsk(node);
	columns = WithRanks(node);
	EncdbRankedBeginSort(node, columns);
	node->row = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	SortRows(node, rows);
	tuplestore_end(rows);
	ExecDropSingleTupleTableSlot(node->row);
	node->row = MakeSingleTupleTableSlot(columns, &TTSOpsMinimalTuple);
	EncdbRankedForgetCells(node);
	MemoryContextSwitchTo(old);
}

/* The next row without its ranks, or NULL */
static TupleTableSlot *
EncdbRankedNext(RankedSort *node)
{
	TupleTableSlot *slot = node->scan.ss.ss_ScanTupleSlot;
	int			ncolumns = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	if (!tuplesort_gettupleslot(node->sort, true, false, node->row, NULL))
		return NULL;
	slot_getsomeattrs(node->row, ncolumns);
	memcpy(slot->tts_values, node->row->tts_values, ncolumns * sizeof(Datum));
	memcpy(slot->tts_isnull, node->row->tts_isnull, ncolumns * sizeof(bool));
	return ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *
EncdbRankedExec(CustomScanState *scan)
{
	RankedSort *node = (RankedSort *) scan;
	PlanState  *state = &scan->ss.ps;
	TupleTableSlot *slot;

	if (node->sort == NULL)
		EncdbRankedSort(node);
	ResetExprContext(state->ps_ExprContext);
	slot = EncdbRankedNext(node);
	if (slot == NULL)
		return ExecClearTuple(state->ps_ProjInfo ? state->ps_ResultTupleSlot : scan->ss.ss_ScanTupleSlot);
	state->ps_ExprContext->ecxt_scantuple = slot;
	return state->ps_ProjInfo ? ExecProject(state->ps_ProjInfo) : slot;
}

static void
EncdbRankedForgetSort(RankedSort *node)
{
	ExecClearTuple(node->scan.ss.ss_ScanTupleSlot);
	if (node->sort == NULL)
		return;
	ExecDropSingleTupleTableSlot(node->row);
	tuplesort_end(node->sort);
	node->sort = NULL;
}

static void
EncdbRankedEnd(CustomScanState *scan)
{
	EncdbRankedForgetSort((RankedSort *) scan);
	ExecEndNode(((RankedSort *) scan)->child);
}

static void
EncdbRankedRescan(CustomScanState *scan)
{
	RankedSort *node = (RankedSort *) scan;

	EncdbRankedForgetSort(node);
	if (scan->ss.ps.chgParam)
		UpdateChangedParamSet(node->child, scan->ss.ps.chgParam);
	if (node->child->chgParam == NULL)
		ExecReScan(node->child);
}

static void
EncdbRankedExplain(CustomScanState *scan, List *ancestors, ExplainState *es)
{
	RankedSort *node = (RankedSort *) scan;

	encdb_ranked_sort_keys((CustomScan *) scan->ss.ps.plan, ancestors, es);
	if (!es->analyze)
		return;
	ExplainPropertyInteger("Keys Ranked", NULL, node->nranked, es);
	ExplainPropertyInteger("Cells Ranked", NULL, (int64) node->cells_ranked, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "encdb sort",
	.BeginCustomScan = EncdbRankedBegin,
	.ExecCustomScan = EncdbRankedExec,
	.EndCustomScan = EncdbRankedEnd,
	.ReScanCustomScan = EncdbRankedRescan,
	.ExplainCustomScan = EncdbRankedExplain,
};

static Node *
MakeNode(CustomScan *plan)
{
	RankedSort *node = palloc0(sizeof(RankedSort));

	NodeSetTag(node, T_CustomScanState);
	node->scan.methods = &exec_methods;
	return (Node *) node;
}

CustomScanMethods encdb_ranked_sort_methods = {"encdb sort", MakeNode};
