/*
 * ahead_merge.c
 *	  Has queries that sort by cells planned without Gather Merge.
 *
 * A sort ranks all its cells by one request (sort.c). Gather Merge compares the rows of parallel workers pair by pair, which is
 * a request for each row of the result or more. A sort above Gather gives the same rows.
 */
#include "ahead.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"

static planner_hook_type next_planner = NULL;

static bool
HasCells(List *clauses, List *targets)
{
	ListCell   *cell;

	foreach(cell, clauses)
		if (encdb_is_of_cells(exprType(get_sortgroupclause_expr(lfirst(cell), targets))))
			return true;
	return false;
}

static bool
EncdbMergeHasWindow(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->windowClause)
	{
		WindowClause *window = lfirst_node(WindowClause, cell);

		if (HasCells(window->partitionClause, query->targetList) || HasCells(window->orderClause, query->targetList))
			return true;
	}
	return false;
}

/* Whether a query, or one within it, may have rows sorted by cells */
static bool
EncdbMergeSorts(Node *node, void *unused)
{
	Query	   *query = (Query *) node;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, EncdbMergeSorts, unused);
	return HasCells(query->sortClause, query->targetList) || HasCells(query->groupClause, query->targetList) ||
		HasCells(query->distinctClause, query->targetList) || EncdbMergeHasWindow(query) ||
		query_tree_walker(query, EncdbMergeSorts, unused, 0);
}

/* Plans a query with a setting of the planner off, by the planner that a hook has found before it */
PlannedStmt *
encdb_plan_without(bool *setting, planner_hook_type next, Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	planner_hook_type planner = next ? next : standard_planner;
	bool		before = *setting;
	PlannedStmt *plan;

	*setting = false;
	PG_TRY();
	{
		plan = planner(query, text, options, PLANNER_ARGUMENTS);
	}
	PG_FINALLY();
	{
		*setting = before;
	}
	PG_END_TRY();
	return plan;
}

static PlannedStmt *
PlanWithoutMerge(Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	bool		nothing = false;
	bool		without = encdb_read_ahead && encdb_evaluator == EVALUATOR_ISOLATED && EncdbMergeSorts((Node *) query, NULL);

	return encdb_plan_without(without ? &enable_gathermerge : &nothing, next_planner, query, text, options, PLANNER_ARGUMENTS);
}

void
encdb_ahead_merge_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanWithoutMerge;
}
