/*
 * jit.c
 *	  Queries on tables with encrypted columns are not compiled to machine code (JIT).
 *
 * PostgreSQL compiles a query that is expected to cost much. Operators on cells are dear to it, because they are requests or
 * decryptions, and no compiled expression makes these faster: the compilation alone took up to 0.3 s of a query.
 */
#include "encdb.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "jit/jit.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

static planner_hook_type next_planner = NULL;

static bool
HasCells(Oid table)
{
	/* The query has locked it */
	Relation	relation = relation_open(table, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	bool		found = false;

	for (int i = 0; i < columns->natts && !found; i++)
		found = !TupleDescAttr(columns, i)->attisdropped && encdb_is_of_cells(TupleDescAttr(columns, i)->atttypid);
	relation_close(relation, NoLock);
	return found;
}

static bool
ReadsCells(const PlannedStmt *plan)
{
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_INDEX && HasCells(entry->relid))
			return true;
	}
	return false;
}

static PlannedStmt *
PlanWithoutJit(Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	planner_hook_type next = next_planner ? next_planner : standard_planner;
	PlannedStmt *plan = next(query, text, options, PLANNER_ARGUMENTS);

	if (plan->jitFlags != PGJIT_NONE && ReadsCells(plan))
		plan->jitFlags = PGJIT_NONE;
	return plan;
}

void
encdb_jit_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanWithoutJit;
}
