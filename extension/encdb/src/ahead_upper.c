/*
 * ahead_upper.c
 *	  Puts the node that reads rows ahead between a sort and what makes groups of its rows: that compares each row with the one
 *	  before it.
 *
 * Grouping is found in the paths that PostgreSQL has made for it, below parallel workers, too.
 */
#include "ahead.h"

#include "optimizer/planner.h"

static create_upper_paths_hook_type next_create_upper_paths = NULL;

static void PutBelow(Path *path);

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

static void
PutBelow(Path *path)
{
	Path	  **below = EncdbUpperBelow(path);

	if (below == NULL)
		return;
	PutBelow(*below);
	if (ComparesNeighbours(path) && CopiesRows(*below))
		*below = encdb_ahead_above(*below);
}

static void
EncdbUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	ListCell   *cell;

	if (next_create_upper_paths)
		next_create_upper_paths(root, stage, input, output, extra);
	if (!encdb_read_ahead || encdb_evaluator != EVALUATOR_ISOLATED || (stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) ||
		!encdb_ahead_groups(root))
		return;
	foreach(cell, output->pathlist)
		PutBelow(lfirst(cell));
}

void
encdb_ahead_upper_init(void)
{
	next_create_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = EncdbUpperPaths;
}
