/*
 * aggregate.h
 *	  The state of an aggregate, which aggregate.c and aggregate_groups.c share.
 */
#ifndef ENCDB_AGGREGATE_H
#define ENCDB_AGGREGATE_H

#include "deferred.h"

#include "lib/ilist.h"

/* Values that are collected at most */
#define BATCH			128
/* Of one row, at most */
#define MAX_WIDTH		2

typedef struct AggregateState
{
	uint64		number;			/* 0: the evaluator has none yet, or none any more */
	char		kind;
	int			width;			/* cells that a row brings */
	const char *locale;			/* of extremes */
	MemoryContext context;
	MemoryContextCallback gone;
	dlist_node	link;			/* among the states of the context */
	bool		listed;			/* it is there */
	bool		asked;			/* a window has had the result of the collected cells alone */
	bool		ended;			/* the result is known: it is where the cells were */
	bool		is_null;
	int			nvalues;
	Size		used;
	Size		allocated;
	uint8	   *bytes;			/* the collected values, cells or deferred, each after its length */
} AggregateState;

/* The values of states, as a request has them */
#define MAX_VALUES		4096
#define MAX_CELLS		8192
#define MAX_PROGRAMS	64

typedef struct AggregateValues
{
	int			nprograms;
	PgsealBytes programs[MAX_PROGRAMS];
	int			nvalues;
	uint8		shape[MAX_VALUES];
	int			ncells;
	PgsealBytes cells[MAX_CELLS];
} AggregateValues;

/* aggregate.c */
extern void encdb_aggregate_keep(AggregateState *state, PgsealBytes result);

/* aggregate_values.c */
extern PgsealBytes encdb_aggregate_next(const uint8 **next);
extern bool encdb_aggregate_add(AggregateValues *values, const AggregateState *state);
extern PgsealBatch encdb_aggregate_batch(const AggregateValues *values, char kind, const char *locale);
extern PgsealBatch encdb_aggregate_collected(const AggregateState *state);
extern PgsealBatch encdb_aggregate_alone(const AggregateState *state, const PgsealBytes *row, int width);

/* aggregate_groups.c */
extern void encdb_aggregate_enlist(AggregateState *state);
extern bool encdb_aggregate_end_groups(AggregateState *state);

#endif							/* ENCDB_AGGREGATE_H */
