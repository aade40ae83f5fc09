/*
 * analyze.c
 *	  Whether ANALYZE of this backend asks for a comparison: it gets the order of the stored bytes.
 *
 * 1. That ANALYZE runs is known from what the backend reports of its progress.
 * 2. An index's expression may be anybody's function. Queries and utility statements that it runs may write into other
 *	  indexes, and get no such answer. No ANALYZE is among them: PostgreSQL refuses it there.
 * 3. Such a statement, or the end of a failed subtransaction, ends what the backend reports of ANALYZE, though ANALYZE
 *	  goes on. It is put back.
 * 4. If the library is loaded inside of ANALYZE, the memory that is allocated at that moment says for whom.
 */
#include "encdb.h"

#include "commands/progress.h"
#include "executor/executor.h"
#include "tcop/utility.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

/* What a backend reports of ANALYZE */
typedef struct Report
{
	Oid			table;
	int64		numbers[PGSTAT_NUM_PROGRESS_PARAM];
} Report;

/* A subtransaction that began inside of ANALYZE, and so ends inside of it */
typedef struct Inner
{
	SubTransactionId id;
	Report		report;
	struct Inner *outer;
} Inner;

static ExecutorStart_hook_type next_executor_start = NULL;
static ProcessUtility_hook_type next_process_utility = NULL;

static Inner *inner = NULL;

/* Queries and utility statements that were begun inside of ANALYZE and are open; it runs none itself */
static int	nested = 0;

/* The library came with a statement inside of ANALYZE whose end is not seen */
static bool came_late = false;

static bool
IsInAnalyze(void)
{
	return MyBEEntry && MyBEEntry->st_progress_command == PROGRESS_COMMAND_ANALYZE;
}

/* Whether ANALYZE of this backend asks, and nobody inside of it */
bool
encdb_in_analyze(void)
{
	return IsInAnalyze() && nested == 0 && !came_late;
}

static void
EncdbAnalyzeKeep(Report *report)
{
	report->table = MyBEEntry->st_progress_command_target;
	memcpy(report->numbers, MyBEEntry->st_progress_param, sizeof(report->numbers));
}

static void
PutBack(const Report *report)
{
	if (IsInAnalyze())
		return;
	pgstat_progress_start_command(PROGRESS_COMMAND_ANALYZE, report->table);
	for (int i = 0; i < PGSTAT_NUM_PROGRESS_PARAM; i++)
		pgstat_progress_update_param(i, report->numbers[i]);
}

static void
EncdbAnalyzeClose(void *unused)
{
	nested--;
}

/* The context goes at the query's end and after its error alike */
static void
CountUntilReset(MemoryContext context)
{
	MemoryContextCallback *callback;

	callback = MemoryContextAllocZero(context, sizeof(MemoryContextCallback));
	callback->func = EncdbAnalyzeClose;
	MemoryContextRegisterResetCallback(context, callback);
	nested++;
}

static void
EncdbAnalyzeExecutorStarts(QueryDesc *query, int flags)
{
	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	if (unlikely(IsInAnalyze()))
		CountUntilReset(query->estate->es_query_cxt);
}

static void
RunUtility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
		   ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_process_utility ? next_process_utility : standard_ProcessUtility;

	next(statement, query, read_only_tree, context, params, environment, dest, completion);
}

static void
EncdbAnalyzeUtility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	Report		report;

	if (likely(!IsInAnalyze()))
	{
		RunUtility(statement, query, read_only_tree, context, params, environment, dest, completion);
		return;
	}
	EncdbAnalyzeKeep(&report);
	nested++;
	PG_TRY();
	{
		RunUtility(statement, query, read_only_tree, context, params, environment, dest, completion);
	}
	PG_FINALLY();
	{
		nested--;
	}
	PG_END_TRY();
	PutBack(&report);
}

static void
EncdbAnalyzeSubXactChanges(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *unused)
{
	if (event == SUBXACT_EVENT_START_SUB && IsInAnalyze())
	{
		Inner	   *begun = MemoryContextAlloc(TopTransactionContext, sizeof(Inner));

		begun->id = id;
		begun->outer = inner;
		EncdbAnalyzeKeep(&begun->report);
		inner = begun;
	}
	else if ((event == SUBXACT_EVENT_ABORT_SUB || event == SUBXACT_EVENT_COMMIT_SUB) && inner && inner->id == id)
	{
		Inner	   *ended = inner;

		if (event == SUBXACT_EVENT_ABORT_SUB)
			PutBack(&ended->report);
		inner = ended->outer;
		pfree(ended);
	}
}

/* ANALYZE of a table ends with a transaction, or before */
static void
EncdbAnalyzeXactEnds(XactEvent event, void *unused)
{
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
	{
		inner = NULL;
		came_late = false;
	}
}

/* For whom the library is loaded: for a query, whose context ends; for ANALYZE itself; or for another statement */
static void
ComeInside(void)
{
	for (MemoryContext context = CurrentMemoryContext; context; context = context->parent)
	{
		if (strcmp(context->name, "ExecutorState") == 0)
		{
			CountUntilReset(context);
			return;
		}
		if (strcmp(context->name, "Analyze") == 0)
			return;
	}
	came_late = true;
}

void
encdb_analyze_init(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = EncdbAnalyzeExecutorStarts;
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = EncdbAnalyzeUtility;
	RegisterSubXactCallback(EncdbAnalyzeSubXactChanges, NULL);
	RegisterXactCallback(EncdbAnalyzeXactEnds, NULL);
	if (IsInAnalyze())
		ComeInside();
}
