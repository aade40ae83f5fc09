/*
 * distinct.c
 *	  Which queries take equal values to have equal abbreviated keys.
 *
 * The numbers by which an isolated sort ranks its cells (sort.c) are not equal for
 * equal values. A DISTINCT of an aggregate with more than one argument and
 * dense_rank WITHIN GROUP compare the abbreviated keys of what a sort gave back,
 * and would find no two equal. A sort does not say whom it is for, so while such a
 * query is open no sort of the backend numbers cells: they are compared in full.
 */
#include "encdb.h"

#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"

static ExecutorStart_hook_type next_executor_start = NULL;
static int	open_queries = 0;

static bool
ReadsKeys(const Aggref *aggregate)
{
	return aggregate->aggkind == AGGKIND_HYPOTHETICAL ||
		(aggregate->aggdistinct != NIL && list_length(aggregate->args) > 1);
}

static bool
Walk(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, AggState))
	{
		ListCell   *cell;

		foreach(cell, ((AggState *) state)->aggs)
			if (ReadsKeys(lfirst_node(Aggref, cell)))
				return true;
	}
	return planstate_tree_walker(state, Walk, context);
}

static void
Close(void *unused)
{
	open_queries--;
}

static void
ExecutorStarts(QueryDesc *query, int flags)
{
	MemoryContextCallback *callback;

	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	/* Inline, sorts number nothing */
	if (encdb_evaluator != EVALUATOR_ISOLATED || !Walk(query->planstate, NULL))
		return;
	/* The query's memory goes at its end and after its error alike */
	callback = MemoryContextAllocZero(query->estate->es_query_cxt, sizeof(MemoryContextCallback));
	callback->func = Close;
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt, callback);
	open_queries++;
}

bool
encdb_keys_are_read(void)
{
	return open_queries > 0;
}

void
encdb_distinct_init(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = ExecutorStarts;
}
