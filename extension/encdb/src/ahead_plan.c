/*
 * ahead_plan.c
 *	  Puts the node that reads rows ahead above scans of tables, and above the joins of a query, where operators are applied to
 *	  their encrypted columns.
 *
 * 1. A scan, or the last join, is replaced by the node above it; the plan is otherwise what PostgreSQL chose. So are the costs:
 *	  a request is what a comparison without the node would be.
 * 2. Of the scan's filters the node takes the first that has a cell, and all behind it, in their order, which PostgreSQL chose
 *	  for the sake of row-level security, too. The scan keeps those before it, and what an index checks.
 * 3. Scans of small tables, and those that find at most one row by a unique index, stay as they are.
 */
#include "ahead.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

/* Rows of a table at least */
#define FEWEST_ROWS		4

static set_rel_pathlist_hook_type next_set_rel_pathlist = NULL;
static set_join_pathlist_hook_type next_set_join_pathlist = NULL;

/* What is looked for in expressions: operators on cells of these relations */
typedef struct Search
{
	PlannerInfo *root;
	Relids		relids;
	bool		joins;			/* with columns of others alone: filters are looked at by themselves */
} Search;

/* Whether an expression is, or contains, a column of cells of the relations */
static bool
HasColumn(Node *node, const Search *search)
{
	List	   *columns = pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, columns)
	{
		Var		   *column = lfirst_node(Var, cell);

		if (bms_is_member(column->varno, search->relids) && encdb_is_of_cells(column->vartype))
			return true;
	}
	return false;
}

/* The arguments of a call that an operator or function has; NIL of other nodes */
static List *
ArgumentsOf(Node *node)
{
	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((OpExpr *) node)->args;
		case T_FuncExpr:
			return ((FuncExpr *) node)->args;
		case T_ScalarArrayOpExpr:
			return ((ScalarArrayOpExpr *) node)->args;
		default:
			return NIL;
	}
}

static bool
IsLeftOut(Node *node, const Search *search)
{
	return search->joins && bms_is_subset(pull_varnos(search->root, node), search->relids);
}

/* Whether operators or functions are applied to columns of cells. Aggregates collect what they get, and ask by themselves */
static bool
IsAppliedTo(Node *node, void *search)
{
	if (node == NULL)
		return false;
	if (IsA(node, RestrictInfo))
		return IsAppliedTo((Node *) ((RestrictInfo *) node)->clause, search);
	if (IsA(node, Query))
		return false;
	if (ArgumentsOf(node) != NIL && HasColumn((Node *) ArgumentsOf(node), search) && !IsLeftOut(node, search))
		return true;
	return expression_tree_walker(node, IsAppliedTo, search);
}

/* Whether groups are made of columns of cells: these are hashed and compared */
static bool
AreGrouped(PlannerInfo *root, List *clauses, const Search *search)
{
	ListCell   *cell;

	foreach(cell, clauses)
		if (HasColumn(get_sortgroupclause_expr(lfirst(cell), root->parse->targetList), search))
			return true;
	return false;
}

/* Whether groups, or distinct rows, are made of columns of cells of any table */
bool
encdb_ahead_groups(PlannerInfo *root)
{
	Search		search = {root, root->all_baserels};

	return AreGrouped(root, root->parse->groupClause, &search) || AreGrouped(root, root->parse->distinctClause, &search);
}

/* Whether what is computed and grouped of the rows of all tables asks the evaluator */
static bool
IsAskedInTheEnd(PlannerInfo *root, Relids relids)
{
	Search		search = {root, relids};

	return IsAppliedTo((Node *) root->processed_tlist, &search) ||
		IsAppliedTo(root->parse->havingQual, &search) ||
		AreGrouped(root, root->parse->groupClause, &search) ||
		AreGrouped(root, root->parse->distinctClause, &search);
}

/* Whether joins of a relation ask the evaluator about its rows */
static bool
IsAskedByJoins(PlannerInfo *root, Relids relids)
{
	Search		search = {root, relids, true};

	return IsAppliedTo((Node *) root->parse->jointree, &search);
}

/* Adds the clauses that an index checks: what it finds by a lossy condition is checked again */
static List *
CheckedByIndex(Path *path, List *checked)
{
	ListCell   *cell;

	if (IsA(path, IndexPath))
	{
		foreach(cell, ((IndexPath *) path)->indexclauses)
			if (!lfirst_node(IndexClause, cell)->lossy)
				checked = lappend(checked, lfirst_node(IndexClause, cell)->rinfo);
	}
	else if (IsA(path, BitmapHeapPath))
		checked = CheckedByIndex(((BitmapHeapPath *) path)->bitmapqual, checked);
	else if (IsA(path, BitmapAndPath))
		foreach(cell, ((BitmapAndPath *) path)->bitmapquals)
			checked = CheckedByIndex(lfirst(cell), checked);
	return checked;
}

/* Whether the filters of a scan ask the evaluator about its rows */
static bool
IsAskedByFilters(PlannerInfo *root, RelOptInfo *rel, Path *path)
{
	Search		search = {root, rel->relids};
	List	   *filters = list_difference_ptr(rel->baserestrictinfo, CheckedByIndex(path, NIL));

	return IsAppliedTo((Node *) filters, &search);
}

/* Whether a clause has a cell of the relation */
static bool
HasCell(Node *clause, Index relation)
{
	Search		search = {NULL, bms_make_singleton(relation)};

	return HasColumn(clause, &search);
}

/* What a path whose rows processes share gives is not the same again, nor what one for each row of another table gives */
static Plan *
Complete(CustomScan *node, const CustomPath *path, List *tlist, List *plans)
{
	node->scan.plan.targetlist = tlist;
	node->flags = path->flags;
	node->custom_plans = plans;
	node->custom_private = list_make1(makeInteger(path->path.parallel_workers == 0 && path->path.param_info == NULL));
	node->methods = &encdb_ahead_methods;
	return &node->scan.plan;
}

/* The rows of a join, or of a sort, are its output */
static Plan *
PlanOutput(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *plans)
{
	CustomScan *node = makeNode(CustomScan);

	node->custom_scan_tlist = copyObject(((Plan *) linitial(plans))->targetlist);
	return Complete(node, path, tlist, plans);
}

static Plan *
PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *plans)
{
	CustomScan *node = makeNode(CustomScan);
	Plan	   *scan = linitial(plans);
	List	   *kept = NIL;
	ListCell   *cell;

	foreach(cell, scan->qual)
	{
		if (node->scan.plan.qual != NIL || HasCell(lfirst(cell), rel->relid))
			node->scan.plan.qual = lappend(node->scan.plan.qual, lfirst(cell));
		else
			kept = lappend(kept, lfirst(cell));
	}
	scan->qual = kept;
	/*
	 * The node takes the row that the scan met. Minors before May 2025 (15.13, 17.5) do not read the visible pages of a bitmap for a
	 * scan that gives nothing, and it meets rows of NULL then.
	 */
	scan->targetlist = NIL;
	if (IsA(scan, BitmapHeapScan))
		scan->targetlist = list_make1(makeTargetEntry((Expr *) makeBoolConst(true, false), 1, NULL, false));
	node->scan.scanrelid = rel->relid;
	return Complete(node, path, tlist, plans);
}

/* What a filter of groups is made of */
static List *
PartsOf(Node *filter)
{
	return pull_var_clause(filter, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS);
}

static bool
HasCellOfGroup(Node *filter)
{
	ListCell   *cell;

	if (contain_subplans(filter))
		return false;
	foreach(cell, PartsOf(filter))
		if (encdb_is_of_cells(exprType(lfirst(cell))))
			return true;
	return false;
}

/* The rows of groups are the output of an aggregate, with what their filters need */
static Plan *
PlanGroups(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *plans)
{
	CustomScan *node = makeNode(CustomScan);
	Plan	   *groups = linitial(plans);
	List	   *kept = NIL;
	ListCell   *cell;

	foreach(cell, groups->qual)
	{
		if (HasCellOfGroup(lfirst(cell)))
		{
			node->scan.plan.qual = lappend(node->scan.plan.qual, lfirst(cell));
			groups->targetlist = add_to_flat_tlist(groups->targetlist, PartsOf(lfirst(cell)));
		}
		else
			kept = lappend(kept, lfirst(cell));
	}
	groups->qual = kept;
	node->custom_scan_tlist = copyObject(groups->targetlist);
	return Complete(node, path, tlist, plans);
}

static const CustomPathMethods group_methods = {.CustomName = "encdb read ahead",.PlanCustomPath = PlanGroups};
static const CustomPathMethods scan_methods = {.CustomName = "encdb read ahead",.PlanCustomPath = PlanScan};
static const CustomPathMethods output_methods = {.CustomName = "encdb read ahead",.PlanCustomPath = PlanOutput};

/* Whether an index finds at most one row */
static bool
FindsOne(const IndexPath *path)
{
	const IndexOptInfo *index = path->indexinfo;
	Bitmapset  *columns = NULL;
	ListCell   *cell;

	if (!index->unique || index->relam != BTREE_AM_OID)
		return false;
	foreach(cell, path->indexclauses)
	{
		const IndexClause *clause = lfirst_node(IndexClause, cell);
		const OpExpr *operator = (OpExpr *) linitial_node(RestrictInfo, clause->indexquals)->clause;

		if (IsA(operator, OpExpr) &&
			get_op_opfamily_strategy(operator->opno, index->opfamily[clause->indexcol]) == BTEqualStrategyNumber)
			columns = bms_add_member(columns, clause->indexcol);
	}
	return bms_num_members(columns) == index->nkeycolumns;
}

/* Whether a path may meet more than a few rows, before its filters */
static bool
MeetsRows(RelOptInfo *rel, Path *path)
{
	if (path->parent != rel)
		return false;
	switch (path->pathtype)
	{
		case T_SeqScan:
		case T_BitmapHeapScan:
			return rel->tuples >= FEWEST_ROWS;
		case T_IndexScan:
			return rel->tuples >= FEWEST_ROWS && !FindsOne((IndexPath *) path);
		default:
			return false;
	}
}

static Path *
Above(Path *scan, const CustomPathMethods *methods)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *scan;
	NodeSetTag(path, T_CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parallel_aware = false;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(scan);
	path->methods = methods;
	return &path->path;
}

static void
PutAbove(PlannerInfo *root, RelOptInfo *rel, List *paths, bool asked)
{
	ListCell   *cell;

	foreach(cell, paths)
		if (MeetsRows(rel, lfirst(cell)) && (asked || IsAskedByFilters(root, rel, lfirst(cell))))
			lfirst(cell) = Above(lfirst(cell), &scan_methods);
}

/* A filter without a column becomes a node of its own above the scan, where nobody finds the row that was met */
static bool
HasGate(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	return false;
}

static bool
IsTable(const RelOptInfo *rel, const RangeTblEntry *rte)
{
	return IS_SIMPLE_REL(rel) && rte->rtekind == RTE_RELATION && rte->relkind != RELKIND_FOREIGN_TABLE &&
		rte->tablesample == NULL && rel->fdwroutine == NULL;
}

static void
EncdbAheadPaths(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *rte)
{
	Relids		relids;
	bool		asked;

	if (next_set_rel_pathlist)
		next_set_rel_pathlist(root, rel, index, rte);
	if (!encdb_read_ahead || encdb_evaluator != EVALUATOR_ISOLATED || !IsTable(rel, rte) || HasGate(rel))
		return;
	relids = bms_union(rel->relids, rel->top_parent_relids);
	asked = IsAskedByJoins(root, relids) || (bms_is_subset(root->all_baserels, relids) && IsAskedInTheEnd(root, relids));
	PutAbove(root, rel, rel->pathlist, asked);
	PutAbove(root, rel, rel->partial_pathlist, asked);
}

/* The node that has the filters of an aggregate's groups; the same path: it has none that asks about cells */
Path *
encdb_ahead_above_groups(Path *path)
{
	ListCell   *cell;

	if (IsA(path, AggPath))
		foreach(cell, ((AggPath *) path)->qual)
			if (HasCellOfGroup(lfirst(cell)))
				return Above(path, &group_methods);
	return path;
}

/* The node above a path whose output is what is asked about */
Path *
encdb_ahead_above(Path *path)
{
	return Above(path, &output_methods);
}

static void
PutAboveJoins(List *paths)
{
	ListCell   *cell;

	foreach(cell, paths)
	{
		Path	   *path = lfirst(cell);

		if (!IsA(path, CustomPath) && path->param_info == NULL && path->rows >= FEWEST_ROWS)
			lfirst(cell) = encdb_ahead_above(path);
	}
}

/* Called for each way to make a join; earlier ones are covered */
static void
EncdbAheadJoins(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	if (next_set_join_pathlist)
		next_set_join_pathlist(root, joined, outer, inner, type, extra);
	if (!encdb_read_ahead || encdb_evaluator != EVALUATOR_ISOLATED || IS_OTHER_REL(joined) ||
		!bms_is_subset(root->all_baserels, joined->relids) || !IsAskedInTheEnd(root, joined->relids))
		return;
	PutAboveJoins(joined->pathlist);
	PutAboveJoins(joined->partial_pathlist);
}

void
encdb_ahead_init(void)
{
	/* Parallel workers know the node by its name */
	RegisterCustomScanMethods(&encdb_ahead_methods);
	next_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = EncdbAheadPaths;
	next_set_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = EncdbAheadJoins;
	encdb_ahead_merge_init();
	encdb_ahead_upper_init();
}
