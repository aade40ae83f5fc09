/*
 * presorted.c
 *	  Aggregates of distinct cells sort by themselves.
 *
 * Since PostgreSQL 16 a planner may sort the input of count(DISTINCT c) below the aggregate, which then compares each value with
 * the one before: a request for each row. An aggregate that sorts by itself reads keys that the sort has asked for (distinct.c).
 */
#include "ahead.h"

#if PG_VERSION_NUM >= 160000

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/planner.h"

static planner_hook_type next_planner = NULL;

/* Whether a query, or one within it, has an aggregate of distinct cells */
static bool
HasDistinctCells(Node *node, void *context)
{
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, HasDistinctCells, context, 0);
	if (IsA(node, Aggref) && ((Aggref *) node)->aggdistinct)
		foreach(cell, ((Aggref *) node)->args)
			if (encdb_is_of_cells(exprType((Node *) ((TargetEntry *) lfirst(cell))->expr)))
				return true;
	return expression_tree_walker(node, HasDistinctCells, context);
}

static PlannedStmt *
PlanWithoutPresorting(Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	bool		nothing = false;
	bool		without = enable_presorted_aggregate && HasDistinctCells((Node *) query, NULL);

	return encdb_plan_without(without ? &enable_presorted_aggregate : &nothing, next_planner, query, text, options, PLANNER_ARGUMENTS);
}

void
encdb_presorted_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanWithoutPresorting;
}

#else

void
encdb_presorted_init(void)
{
}

#endif
