/*
 * ranked_sort_plan.c
 *	  Where the node "encdb sort" takes the place of a sort: where PostgreSQL's own would compare cells one by one.
 *
 * That is with a second key, and where rows are written to disk and merged. A sort by one key that fits into memory ranks its
 * cells by itself (sort.c).
 */
#include "ranked_sort.h"

#include "access/htup_details.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

static bool
HasCells(const List *keys)
{
	ListCell   *cell;

	foreach(cell, keys)
	{
		EquivalenceClass *class = lfirst_node(PathKey, cell)->pk_eclass;

		if (encdb_is_of_cells(linitial_node(EquivalenceMember, class->ec_members)->em_datatype))
			return true;
	}
	return false;
}

/* Whether rows of a path are expected to go to disk when they are sorted */
static bool
IsSpilled(const Path *path)
{
	double		row = MAXALIGN(path->pathtarget->width) + MAXALIGN(SizeofHeapTupleHeader);

	return path->rows * row > work_mem * 1024.0;
}

bool
encdb_ranked_sort_helps(Path *path)
{
	return IsA(path, SortPath) && HasCells(path->pathkeys) && (list_length(path->pathkeys) > 1 || IsSpilled(path));
}

static List *
KeysOf(const Sort *sort)
{
	List	   *keys = NIL;

	for (int i = 0; i < sort->numCols; i++)
		keys = lappend(keys, list_make4_int(sort->sortColIdx[i], (int) sort->sortOperators[i], (int) sort->collations[i],
											sort->nullsFirst[i]));
	return keys;
}

/* The node takes the keys of the sort that was planned, and what is below it */
static Plan *
PlanSort(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *plans)
{
	CustomScan *node = makeNode(CustomScan);
	Sort	   *sort = linitial_node(Sort, plans);

	node->scan.plan.targetlist = tlist;
	node->flags = path->flags;
	node->custom_scan_tlist = copyObject(sort->plan.targetlist);
	node->custom_plans = list_make1(sort->plan.lefttree);
	node->custom_private = KeysOf(sort);
	node->methods = &encdb_ranked_sort_methods;
	return &node->scan.plan;
}

static const CustomPathMethods sort_methods = {.CustomName = "encdb sort",.PlanCustomPath = PlanSort};

Path *
encdb_ranked_sort(Path *sort)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *sort;
	NodeSetTag(path, T_CustomPath);
	path->path.pathtype = T_CustomScan;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(sort);
	path->methods = &sort_methods;
	return &path->path;
}

/* A key as EXPLAIN shows those of PostgreSQL's sort; of text it adds no collation */
static char *
NameOfKey(List *key, CustomScan *plan, List *context, bool with_table)
{
	TargetEntry *entry = list_nth_node(TargetEntry, plan->custom_scan_tlist, linitial_int(key) - 1);
	char	   *name = deparse_expression((Node *) makeVarFromTargetEntry(INDEX_VAR, entry), context, with_table, true);
	bool		nulls_first = lfourth_int(key) != 0;
	bool		descending;

	(void) get_equality_op_for_ordering_op((Oid) lsecond_int(key), &descending);
	return psprintf("%s%s%s", name, descending ? " DESC" : "",
					nulls_first == descending ? "" : nulls_first ? " NULLS FIRST" : " NULLS LAST");
}

/* EXPLAIN's "Sort Key" */
void
encdb_ranked_sort_keys(CustomScan *plan, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, plan->custom_private)
		names = lappend(names, NameOfKey(lfirst(cell), plan, context, es->verbose || list_length(es->rtable) > 1));
	ExplainPropertyList("Sort Key", names, es);
}

void
encdb_ranked_sort_init(void)
{
	/* Parallel workers know the node by its name */
	RegisterCustomScanMethods(&encdb_ranked_sort_methods);
}
