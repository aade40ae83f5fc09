/*
 * ahead.h
 *	  What the files ahead*.c share: a scan that reads some hundred rows ahead, so that the evaluator is asked about all of them
 *	  by one request.
 *
 * 1. ahead_plan.c puts the node above scans of tables when a query is planned; ahead.c is the node.
 * 2. The node asks nothing by itself. An operator that is called on a cell of the row that the node gave last finds the answer
 *	  here, or has it asked about this row and those that come next (ahead_answers.c). So the plan above may be any.
 * 3. A cell is known by its address: a row that was read ahead, and what was computed of it here, stays where it is until the
 *	  next rows are read. What was copied or detoasted has another address, and is asked about alone, as without this node.
 * 4. An answer is used for the operands that it was given for, in the statement in which it was given. What the evaluator does
 *	  not tell is asked about alone, and raised then: no row is refused for the sake of another.
 */
#ifndef ENCDB_AHEAD_H
#define ENCDB_AHEAD_H

#include "encdb.h"

#include "optimizer/planner.h"

#include "access/htup.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* Rows that are read ahead at most, and their bytes */
#define MAX_AHEAD		256
#define MAX_AHEAD_BYTES	(512 * 1024)

/* Calls of operators in a query whose answers one node keeps */
#define MAX_SITES		24

typedef struct CallSite CallSite;
typedef struct Computation Computation;
typedef struct ColumnTags ColumnTags;
typedef struct AheadFilter AheadFilter;

typedef struct Ahead
{
	CustomScanState scan;		/* first */
	PlanState  *child;
	MemoryContext context;		/* of the rows, and what was computed of them; reset when others are read */
	int			ncolumns;
	HeapTuple	rows[MAX_AHEAD];
	int			nrows;
	int			current;		/* the row that was given last, or -1 */
	int			wanted;			/* rows that are read next */
	bool		ended;			/* the child has no more */
	bool		repeats;		/* a scan that is begun again gives the same: it is no part of one that processes share */
	bool		whole;			/* no rows were forgotten since the child began */
	uint64		batch;			/* a number that these rows have and no others, of any node; never 0 */
	uint64		given;			/* when the last row was given, among all nodes */
	AheadFilter *filter;		/* or NULL */
	bool		alone;			/* the row that was given last is to be asked about alone */
	int			nsites;
	CallSite   *sites[MAX_SITES];
	int			ncomputations;
	Computation *computations[MAX_SITES];
	ColumnTags **tags;			/* of each column, also of those that are computed, or NULL */
	uint64		requests;
	uint64		cells;
	struct Ahead *next;			/* of the nodes that are open */
	MemoryContextCallback closed;
} Ahead;

/* ahead.c */
extern Ahead *encdb_ahead_open;
extern void encdb_ahead_forget_answers(Ahead *node);
extern TupleTableSlot *encdb_ahead_slot(const Ahead *node);

/* Whether anything may be known of a cell. Where the evaluator is in this process, nothing is asked ahead */
static inline bool
IsAhead(void)
{
	if (encdb_ahead_open == NULL || encdb_evaluator != EVALUATOR_ISOLATED)
		return false;
	if (Attached())
		return true;
	/* A cancel cuts the wait for an evaluator short, but not the one of who asks next */
	CHECK_FOR_INTERRUPTS();
	return false;
}

/* ahead.c, ahead_plan.c */
extern CustomScanMethods encdb_ahead_methods;
extern Path *encdb_ahead_above(Path *path);
extern Path *encdb_ahead_above_groups(Path *path);
extern bool encdb_ahead_groups(PlannerInfo *root);

/* ahead_merge.c */
extern void encdb_ahead_merge_init(void);
extern PlannedStmt *encdb_plan_without(bool *setting, planner_hook_type next, Query *query, const char *text, int options,
									   PLANNER_PARAMETERS);

/* ahead_groups.c */
extern void encdb_ahead_groups_hashed(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, const void *extra);

/* ahead_upper.c */
extern void encdb_ahead_upper_init(void);

/* ahead_rows.c */
extern Ahead *encdb_ahead_node(const void *cell, int *column);
extern bool encdb_ahead_cell(const Ahead *node, int row, int column, PgsealBytes *cell, bool *is_null);
extern bool encdb_ahead_is_column(const Ahead *node, int column, NullableDatum argument);

/* The end of the rows that may be asked about together, from the current one on */
static inline int
EndOfRows(const Ahead *node)
{
	return node->alone ? node->current + 1 : node->nrows;
}

/* Whether it pays to ask about many */
typedef struct Asking
{
	int			nasked;			/* by the last request */
	int			nused;			/* of its answers */
	int			wait;			/* calls that are let pass the next time */
	int			pass;			/* that are let pass now */
} Asking;

/* ahead_answers.c */
extern bool encdb_is_equality(const FmgrInfo *call);
extern void encdb_ahead_judge(Asking *asking);
extern bool encdb_ahead_waits(Asking *asking);
extern void encdb_ahead_asked(Ahead *node, Asking *asking, int ncells);
extern bool encdb_ahead_fails(const Ahead *node, int row);
extern bool encdb_ahead_order(const FmgrInfo *call, Cell *left, Cell *right, const char *locale, int *order);
extern bool encdb_ahead_like(const FmgrInfo *call, Cell *text, Cell *pattern, int how, const char *locale, int *matches);

/* ahead_filter.c */
typedef enum FilterOutcome
{
	FILTER_UNASKED,
	FILTER_UNTOLD,				/* others may be told about */
	FILTER_HOLDS,
	FILTER_FAILS
} FilterOutcome;

extern AheadFilter *encdb_ahead_filter_begin(Ahead *node);
extern void encdb_ahead_filter_again(AheadFilter *filter);
extern FilterOutcome encdb_ahead_filter(Ahead *node);
extern ExprState *encdb_ahead_filter_others(const AheadFilter *filter);
extern bool encdb_ahead_filter_fails(const Ahead *node, int row);

/* ahead_computed.c */
extern Cell *encdb_ahead_result(const Ahead *node, int computation, int row);
extern bool encdb_ahead_is_null(const Ahead *node, int computation, int row);
extern bool encdb_ahead_computed(FunctionCallInfo fcinfo, PgsealBytes program, int first, int noperands, Datum *result,
								 bool *is_null);
extern bool encdb_ahead_step(FunctionCallInfo fcinfo, uint8 step, Datum *result);

/* ahead_tags.c */
extern bool encdb_ahead_equal(Cell *left, Cell *right, bool *equal);
extern bool encdb_ahead_has_tag(const Ahead *node, int column);
extern bool encdb_ahead_hash(Cell *cell, uint64 *hash);
extern void encdb_ahead_forget_tags(void);

#endif							/* ENCDB_AHEAD_H */
