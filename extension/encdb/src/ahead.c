/*
 * ahead.c
 *	  The node that reads rows ahead: it takes them from the scan below, keeps copies, and gives them in their order, each when
 *	  it is asked for, with the filters that ahead_plan.c left to it.
 */
#include "ahead.h"

#include "access/relation.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A query that needs few rows reads few: the next number is twice the last */
#define FIRST_AHEAD		16

bool		encdb_read_ahead = true;
Ahead	   *encdb_ahead_open = NULL;

static uint64 batches = 0;

/* Answers are about a batch, by its number */
void
encdb_ahead_forget_answers(Ahead *node)
{
	node->batch = ++batches;
}

static void
EncdbAheadForgetRows(Ahead *node)
{
	ExecClearTuple(node->scan.ss.ss_ScanTupleSlot);
	MemoryContextReset(node->context);
	node->nrows = 0;
	node->current = -1;
	encdb_ahead_forget_answers(node);
}

/* The memory of a query goes at its end and after its error alike */
static void
EncdbAheadClose(void *argument)
{
	Ahead	  **link = &encdb_ahead_open;

	while (*link != argument)
		link = &(*link)->next;
	*link = ((Ahead *) argument)->next;
	if (encdb_ahead_open == NULL)
		encdb_ahead_forget_tags();
}

static void
EncdbAheadOpen(Ahead *node, MemoryContext query)
{
	node->next = encdb_ahead_open;
	encdb_ahead_open = node;
	node->closed.func = EncdbAheadClose;
	node->closed.arg = node;
	MemoryContextRegisterResetCallback(query, &node->closed);
}

/* A slot for rows as the node keeps them, beside the one that it gives them in */
TupleTableSlot *
encdb_ahead_slot(const Ahead *node)
{
	TupleDesc	columns = node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	return ExecInitExtraTupleSlot(node->scan.ss.ps.state, columns, &TTSOpsHeapTuple);
}

static void
EncdbAheadBegin(CustomScanState *scan, EState *estate, int eflags)
{
	Ahead	   *node = (Ahead *) scan;
	CustomScan *plan = (CustomScan *) scan->ss.ps.plan;
	TupleDesc	columns = scan->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	int			source = plan->scan.scanrelid > 0 ? (int) plan->scan.scanrelid : INDEX_VAR;

	node->child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	scan->custom_ps = list_make1(node->child);
	/* Copies of rows, a table's with their system columns: PostgreSQL has taken them for values alone */
#if PG_VERSION_NUM >= 190000
	ExecInitScanTupleSlot(estate, &scan->ss, columns, &TTSOpsHeapTuple, 0);
#else
	ExecInitScanTupleSlot(estate, &scan->ss, columns, &TTSOpsHeapTuple);
#endif
	ExecAssignScanProjectionInfoWithVarno(&scan->ss, source);
	scan->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, &scan->ss.ps);
	node->context = AllocSetContextCreate(estate->es_query_cxt, "encdb read ahead", ALLOCSET_DEFAULT_SIZES);
	node->ncolumns = columns->natts;
	node->tags = palloc0((columns->natts + MAX_SITES) * sizeof(ColumnTags *));
	node->current = -1;
	node->wanted = FIRST_AHEAD;
	node->whole = true;
	node->repeats = intVal(linitial(plan->custom_private)) != 0;
	node->filter = encdb_ahead_filter_begin(node);
	EncdbAheadOpen(node, estate->es_query_cxt);
}

/* A copy of the next row of the scan below, or NULL */
static HeapTuple
EncdbAheadRead(Ahead *node)
{
	TupleTableSlot *slot = ExecProcNode(node->child);
	MemoryContext old;
	HeapTuple	row;

	if (TupIsNull(slot))
		return NULL;
	/* A scan's output is made of the row that it met, which is here, in a recheck for row locks, too */
	if (((CustomScan *) node->scan.ss.ps.plan)->scan.scanrelid > 0)
		slot = node->child->ps_ExprContext->ecxt_scantuple;
	old = MemoryContextSwitchTo(node->context);
	row = ExecCopySlotHeapTuple(slot);
	MemoryContextSwitchTo(old);
	return row;
}

/* Where the evaluator is in this process, nothing is asked by the batch. A recheck for row locks has one row */
static int
Wanted(const Ahead *node)
{
	return encdb_evaluator == EVALUATOR_ISOLATED && !node->scan.ss.ps.state->es_epq_active ? node->wanted : 1;
}

static void
EncdbAheadFill(Ahead *node)
{
	int			wanted = Wanted(node);
	Size		nbytes = 0;

	node->whole &= node->nrows == 0;
	EncdbAheadForgetRows(node);
	while (!node->ended && node->nrows < wanted && nbytes < MAX_AHEAD_BYTES)
	{
		HeapTuple	row = EncdbAheadRead(node);

		node->ended = row == NULL;
		if (row == NULL)
			break;
		node->rows[node->nrows++] = row;
		nbytes += row->t_len;
	}
	node->wanted = Min(2 * node->wanted, MAX_AHEAD);
}

/* The next row in its slot, or NULL */
static TupleTableSlot *
EncdbAheadNext(Ahead *node)
{
	static uint64 given = 0;

	if (node->current + 1 >= node->nrows && !node->ended)
		EncdbAheadFill(node);
	if (node->current + 1 >= node->nrows)
		return NULL;
	node->current++;
	node->given = ++given;
	return ExecStoreHeapTuple(node->rows[node->current], node->scan.ss.ss_ScanTupleSlot, false);
}

/* Whether the row that was given last gets through the filters */
static bool
EncdbAheadPasses(Ahead *node, ExprContext *context)
{
	FilterOutcome outcome = encdb_ahead_filter(node);
	bool		passes;

	if (outcome == FILTER_FAILS)
		return false;
	if (outcome == FILTER_HOLDS)
		return ExecQual(encdb_ahead_filter_others(node->filter), context);
	node->alone = outcome == FILTER_UNTOLD;
	passes = ExecQual(node->scan.ss.ps.qual, context);
	node->alone = false;
	return passes;
}

static TupleTableSlot *
EncdbAheadExec(CustomScanState *scan)
{
	PlanState  *state = &scan->ss.ps;
	ExprContext *context = state->ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot = EncdbAheadNext((Ahead *) scan);

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(context);
		if (slot == NULL)
			return ExecClearTuple(state->ps_ProjInfo ? state->ps_ResultTupleSlot : scan->ss.ss_ScanTupleSlot);
		context->ecxt_scantuple = slot;
		if (EncdbAheadPasses((Ahead *) scan, context))
			return state->ps_ProjInfo ? ExecProject(state->ps_ProjInfo) : slot;
		InstrCountFiltered1(scan, 1);
	}
}

static void
EncdbAheadEnd(CustomScanState *scan)
{
	EncdbAheadForgetRows((Ahead *) scan);
	ExecEndNode(((Ahead *) scan)->child);
}

/* Whether the scan would give the same rows again, which are all here: they are given again, with all that is known of them */
static bool
HasAllRows(const Ahead *node)
{
	return node->repeats && node->ended && node->whole && node->scan.ss.ps.chgParam == NULL && !node->scan.ss.ps.state->es_epq_active;
}

static void
EncdbAheadRescan(CustomScanState *scan)
{
	Ahead	   *node = (Ahead *) scan;

	if (HasAllRows(node))
	{
		node->current = -1;
		return;
	}
	EncdbAheadForgetRows(node);
	encdb_ahead_filter_again(node->filter);
	node->whole = true;
	node->ended = false;
	if (!node->repeats)
		node->wanted = FIRST_AHEAD;
	if (scan->ss.ps.chgParam)
		UpdateChangedParamSet(node->child, scan->ss.ps.chgParam);
	if (node->child->chgParam == NULL)
		ExecReScan(node->child);
}

static void
EncdbAheadExplain(CustomScanState *scan, List *ancestors, ExplainState *es)
{
	Ahead	   *node = (Ahead *) scan;

	if (!es->analyze)
		return;
	ExplainPropertyInteger("Evaluator Requests", NULL, (int64) node->requests, es);
	ExplainPropertyInteger("Cells Asked", NULL, (int64) node->cells, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "encdb read ahead",
	.BeginCustomScan = EncdbAheadBegin,
	.ExecCustomScan = EncdbAheadExec,
	.EndCustomScan = EncdbAheadEnd,
	.ReScanCustomScan = EncdbAheadRescan,
	.ExplainCustomScan = EncdbAheadExplain,
};

static Node *
MakeNode(CustomScan *plan)
{
	Ahead	   *node = palloc0(sizeof(Ahead));

	NodeSetTag(node, T_CustomScanState);
	node->scan.methods = &exec_methods;
	return (Node *) node;
}

CustomScanMethods encdb_ahead_methods = {"encdb read ahead", MakeNode};
