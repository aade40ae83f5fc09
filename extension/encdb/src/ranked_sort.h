/*
 * ranked_sort.h
 *	  What ranked_sort.c, the node, and ranked_sort_plan.c share.
 *
 * The node's custom_private has a list of numbers for each key: column, operator, collation, whether NULL comes first.
 */
#ifndef ENCDB_RANKED_SORT_H
#define ENCDB_RANKED_SORT_H

#include "encdb.h"

#include "commands/explain.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* ranked_sort.c */
extern CustomScanMethods encdb_ranked_sort_methods;

/* ranked_sort_plan.c */
extern void encdb_ranked_sort_init(void);
extern bool encdb_ranked_sort_helps(Path *path);
extern Path *encdb_ranked_sort(Path *sort);
extern void encdb_ranked_sort_keys(CustomScan *plan, List *ancestors, ExplainState *es);

#endif							/* ENCDB_RANKED_SORT_H */
