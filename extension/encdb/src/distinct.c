/*
 * distinct.c
 *	  Which queries take equal values to have equal abbreviated keys.
 *
 * The numbers by which an isolated sort ranks its cells (sort.c) are not equal for
 * equal values. An aggregate with DISTINCT, mode and dense_rank WITHIN GROUP
 * compare the abbreviated keys of what their sort gave back, and would find no two
 * equal. Those sort bare datums if they have one argument, else tuples. A sort does
 * not say whom it is for, so while such a query is open sorts of that kind give all
 * cells one key in this backend (sort_content.c). So do they until the end of the
 * transaction that loads the library: its queries may have started before.
 */
#include "encdb.h"

#include "access/xact.h"
#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

/* The sorts whose keys are read */
typedef struct Readers
{
	int			datums;
	int			tuples;
} Readers;

/* A query that is open and reads keys */
typedef struct Reading
{
	MemoryContextCallback closed;
	Readers		readers;
} Reading;

static ExecutorStart_hook_type next_executor_start = NULL;
static Readers open_readers = {0, 0};

static void
EncdbDistinctCount(const Aggref *aggregate, Readers *readers)
{
	bool		reads = aggregate->aggdistinct != NIL || AGGKIND_IS_ORDERED_SET(aggregate->aggkind);

#if PG_VERSION_NUM >= 160000
	/* The rows come sorted, from a node that reads no keys */
	reads = reads && !aggregate->aggpresorted;
#endif
	if (!reads)
		return;
	if (aggregate->aggkind == AGGKIND_HYPOTHETICAL || list_length(aggregate->args) > 1)
		readers->tuples++;
	else
		readers->datums++;
}

static bool
EncdbDistinctWalk(PlanState *state, void *readers)
{
	if (state == NULL)
		return false;
	if (IsA(state, AggState))
	{
		ListCell   *cell;

		foreach(cell, ((AggState *) state)->aggs)
			EncdbDistinctCount(lfirst_node(Aggref, cell), readers);
	}
	return planstate_tree_walker(state, EncdbDistinctWalk, readers);
}

static void
EncdbDistinctClose(void *argument)
{
	Reading    *reading = argument;

	open_readers.datums -= reading->readers.datums;
	open_readers.tuples -= reading->readers.tuples;
}

/* The memory of a query, or a transaction, goes at its end and after its error alike */
static void
EncdbDistinctOpen(MemoryContext context, Readers readers)
{
	Reading    *reading = MemoryContextAllocZero(context, sizeof(Reading));

	reading->readers = readers;
	reading->closed.func = EncdbDistinctClose;
	reading->closed.arg = reading;
	MemoryContextRegisterResetCallback(context, &reading->closed);
	open_readers.datums += readers.datums;
	open_readers.tuples += readers.tuples;
}

static void
EncdbDistinctExecutorStarts(QueryDesc *query, int flags)
{
	Readers		readers = {0, 0};

	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	/* Inline, sorts number nothing; but a cursor may outlive that setting */
	(void) EncdbDistinctWalk(query->planstate, &readers);
	if (readers.datums + readers.tuples > 0)
		EncdbDistinctOpen(query->estate->es_query_cxt, readers);
}

/* Whether keys are read of sorts of tuples, or of bare datums */
bool
encdb_keys_are_read(bool of_tuples)
{
	return (of_tuples ? open_readers.tuples : open_readers.datums) > 0;
}

void
encdb_distinct_init(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = EncdbDistinctExecutorStarts;
	if (IsTransactionState())
		EncdbDistinctOpen(TopTransactionContext, (Readers) {1, 1});
}
