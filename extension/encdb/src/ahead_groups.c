/*
 * ahead_groups.c
 *	  Has small groups of cells aggregated by hashing, where PostgreSQL may choose.
 *
 * The results of a hash aggregate's groups are asked for together (aggregate_groups.c); after a sort each group is a request of
 * its own. PostgreSQL takes both for as dear. So the requests are added to the costs of the paths that it has found, and the
 * path by hashing, which it may have dropped, is offered again.
 */
#include "ahead.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/prep.h"

/* What a request costs the planner: about ten microseconds, as pages that are read one after the other do */
#define COST_OF_REQUEST		(400 * cpu_operator_cost)
/* The groups of a request, about */
#define GROUPS_TOGETHER		100

/* Whether the evaluator is asked for the result of an aggregate */
static bool
IsOfCells(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
		return encdb_is_of_cells(((Aggref *) node)->aggtype);
	return expression_tree_walker(node, IsOfCells, unused);
}

static bool
HasAggregates(PlannerInfo *root)
{
	return IsOfCells((Node *) root->processed_tlist, NULL) || IsOfCells(root->parse->havingQual, NULL);
}

/* A path that makes the groups' results, or NULL */
static AggPath *
AsGroups(Path *path)
{
	return IsA(path, AggPath) && !DO_AGGSPLIT_SKIPFINAL(((AggPath *) path)->aggsplit) ? (AggPath *) path : NULL;
}

static void
AddRequests(AggPath *groups)
{
	double		requests = groups->aggstrategy == AGG_HASHED ? groups->numGroups / GROUPS_TOGETHER : groups->numGroups;

	groups->path.total_cost += requests * COST_OF_REQUEST;
}

static Path *
Hashed(PlannerInfo *root, RelOptInfo *output, Path *below, AggSplit split, const GroupPathExtraData *extra, double ngroups)
{
	AggClauseCosts costs = {0};
#if PG_VERSION_NUM >= 160000
	List	   *clauses = root->processed_groupClause;
#else
	List	   *clauses = root->parse->groupClause;
#endif
	Path	   *path;

	get_agg_clause_costs(root, split, &costs);
	path = (Path *) create_agg_path(root, output, below, output->reltarget, AGG_HASHED, split, clauses,
									(List *) extra->havingQual, &costs, ngroups);
	AddRequests((AggPath *) path);
	return path;
}

/* The number of groups that paths are expected to make, or 0 */
static double
NumberOfGroups(const List *paths)
{
	ListCell   *cell;

	foreach(cell, paths)
		if (AsGroups(lfirst(cell)))
			return AsGroups(lfirst(cell))->numGroups;
	return 0;
}

static void
AddHashed(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, const GroupPathExtraData *extra, double ngroups)
{
	RelOptInfo *partial = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, output->relids);

	add_path(output, Hashed(root, output, input->cheapest_total_path, AGGSPLIT_SIMPLE, extra, ngroups));
	if (partial->cheapest_total_path)
		add_path(output, Hashed(root, output, partial->cheapest_total_path, AGGSPLIT_FINAL_DESERIAL, extra, ngroups));
}

/* Adds the requests for the groups' results to the paths of a query that has such groups */
void
encdb_ahead_groups_hashed(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, const void *extra)
{
	const GroupPathExtraData *how = extra;
	List	   *paths = output->pathlist;
	double		ngroups = NumberOfGroups(paths);
	ListCell   *cell;

	if (ngroups == 0 || root->parse->groupClause == NIL || root->parse->groupingSets || !HasAggregates(root))
		return;
	output->pathlist = NIL;
	foreach(cell, paths)
	{
		if (AsGroups(lfirst(cell)))
			AddRequests(AsGroups(lfirst(cell)));
		add_path(output, lfirst(cell));
	}
	if ((how->flags & GROUPING_CAN_USE_HASH) != 0 && enable_hashagg)
		AddHashed(root, input, output, how, ngroups);
}
