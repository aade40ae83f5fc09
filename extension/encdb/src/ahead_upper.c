/*
 * ahead_upper.c
 *	  Sorts of a query's groups, windows and results: "encdb sort" takes their place where it helps (ranked_sort_plan.c). The node
 *	  that reads rows ahead comes between a sort and what makes groups of its rows, which compares each row with the one before.
 *
 * Both are found in the paths that PostgreSQL has made, below parallel workers, too.
 */
#include "ahead.h"
#include "ranked_sort.h"

#include "optimizer/planner.h"

/* 19 names it so: the path of joins that had the name is gone */
#if PG_VERSION_NUM >= 190000
#define UpperUniquePath		UniquePath
#define T_UpperUniquePath	T_UniquePath
#endif

static create_upper_paths_hook_type next_create_upper_paths = NULL;

/* The place where a path has the only one below it, or NULL */
static Path **
EncdbUpperBelow(Path *path)
{
	switch (nodeTag(path))
	{
		case T_AggPath:
			return &((AggPath *) path)->subpath;
		case T_GroupPath:
			return &((GroupPath *) path)->subpath;
		case T_UpperUniquePath:
			return &((UpperUniquePath *) path)->subpath;
		case T_GatherPath:
			return &((GatherPath *) path)->subpath;
		case T_GatherMergePath:
			return &((GatherMergePath *) path)->subpath;
		case T_ProjectionPath:
			return &((ProjectionPath *) path)->subpath;
		case T_SortPath:
			return &((SortPath *) path)->subpath;
		case T_IncrementalSortPath:
			return &((IncrementalSortPath *) path)->spath.subpath;
		default:
			return NULL;
	}
}

/* Whether a path compares its rows with the ones before them */
static bool
ComparesNeighbours(Path *path)
{
	return IsA(path, GroupPath) || IsA(path, UpperUniquePath) ||
		(IsA(path, AggPath) && ((AggPath *) path)->aggstrategy == AGG_SORTED);
}

/* Whether a path copies the rows that come from below it */
static bool
CopiesRows(Path *path)
{
	return IsA(path, SortPath) || IsA(path, IncrementalSortPath) || IsA(path, GatherMergePath);
}

/* The sort of all rows in place of one of those that are equal in the first keys, which compares the cells of the others */
static Path *
EncdbUpperWhole(Path *path)
{
	SortPath   *whole;

	if (!IsA(path, IncrementalSortPath))
		return path;
	whole = makeNode(SortPath);
	*whole = ((IncrementalSortPath *) path)->spath;
	NodeSetTag(whole, T_SortPath);
	whole->path.pathtype = T_Sort;
	return encdb_ranked_sort_helps(&whole->path) ? &whole->path : path;
}

/* The same path with our nodes; grouped: its rows are grouped by cells */
static Path *
EncdbUpperReplace(Path *path, bool grouped)
{
	Path	  **below = EncdbUpperBelow(path);

	if (below == NULL)
		return path;
	if (grouped && ComparesNeighbours(path) && CopiesRows(*below))
		*below = encdb_ahead_above(EncdbUpperReplace(*below, grouped));
	else
		*below = EncdbUpperReplace(*below, grouped);
	path = EncdbUpperWhole(path);
	return encdb_ranked_sort_helps(path) ? encdb_ranked_sort(path) : path;
}

/* Whether rows may be sorted; a sort that keeps the first few does not rank all */
static bool
IsSorted(const PlannerInfo *root, UpperRelationKind stage)
{
	return stage == UPPERREL_GROUP_AGG || stage == UPPERREL_DISTINCT || stage == UPPERREL_WINDOW ||
		(stage == UPPERREL_ORDERED && root->limit_tuples < 0);
}

static void
EncdbUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	ListCell   *cell;
	bool		grouped = (stage == UPPERREL_GROUP_AGG || stage == UPPERREL_DISTINCT) && encdb_ahead_groups(root);

	if (next_create_upper_paths)
		next_create_upper_paths(root, stage, input, output, extra);
	if (!encdb_read_ahead || encdb_evaluator != EVALUATOR_ISOLATED || !IsSorted(root, stage))
		return;
	if (stage == UPPERREL_GROUP_AGG)
		encdb_ahead_groups_hashed(root, input, output, extra);
	foreach(cell, output->pathlist)
		lfirst(cell) = encdb_ahead_above_groups(EncdbUpperReplace(lfirst(cell), grouped));
}

void
encdb_ahead_upper_init(void)
{
	encdb_ranked_sort_init();
	next_create_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = EncdbUpperPaths;
}
