/*
 * ahead_computed.c
 *	  What is computed of the cells of rows that were read ahead: a program (expression.c) for each row, by one request.
 *
 * The result of a call is a column of its own, by its address: what is applied to it is asked about together, too. The operands
 * are such columns, columns of the row, or cells that are the same for all rows. Where such a cell changes, the call
 * asks about its row alone more and more (ahead_answers.c).
 */
#include "ahead.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#define UNASKED		0
#define THERE		1
#define IS_NULL		2
#define UNTOLD		3

struct Computation
{
	const FmgrInfo *call;
	MemoryContext context;		/* of the program and the operands that are no columns */
	PgsealBytes program;
	int			noperands;
	int			column[PGSEAL_MOST_OPERANDS];	/* or -1 */
	PgsealBytes constant[PGSEAL_MOST_OPERANDS];
	uint64		batch;
	uint64		epoch;
	Asking		asking;
	uint8		state[MAX_AHEAD];
	Cell	   *results[MAX_AHEAD];	/* where they are there, else NULL */
};

static bool
IsFresh(const Ahead *node, const Computation *site)
{
	return site->batch == node->batch && site->epoch == encdb_epoch;
}

/* What was computed for a row; NULL: it is NULL, or not known */
Cell *
encdb_ahead_result(const Ahead *node, int computation, int row)
{
	const Computation *site = node->computations[computation];

	return IsFresh(node, site) && site->state[row] == THERE ? site->results[row] : NULL;
}

bool
encdb_ahead_is_null(const Ahead *node, int computation, int row)
{
	const Computation *site = node->computations[computation];

	return IsFresh(node, site) && site->state[row] == IS_NULL;
}

static PgsealBytes
Copy(MemoryContext context, PgsealBytes bytes)
{
	return (PgsealBytes) {memcpy(MemoryContextAlloc(context, bytes.len), bytes.data, bytes.len), bytes.len};
}

/* The node whose row has one of these arguments, or NULL */
static Ahead *
NodeOfArguments(FunctionCallInfo fcinfo, int first, int noperands)
{
	int			column;

	for (int i = first; i < first + noperands; i++)
	{
		Ahead	   *node = PG_ARGISNULL(i) ? NULL : encdb_ahead_node(PG_GETARG_POINTER(i), &column);

		if (node)
			return node;
	}
	return NULL;
}

static Computation *
EncdbComputation(Ahead *node, const FmgrInfo *call)
{
	MemoryContext query = node->scan.ss.ps.state->es_query_cxt;
	Computation *site;

	for (int i = 0; i < node->ncomputations; i++)
		if (node->computations[i]->call == call)
			return node->computations[i];
	if (node->ncomputations == MAX_SITES)
		return NULL;
	site = MemoryContextAllocZero(query, sizeof(Computation));
	site->call = call;
	site->context = AllocSetContextCreate(query, "encdb operands", ALLOCSET_SMALL_SIZES);
	return node->computations[node->ncomputations++] = site;
}

/* Which arguments are columns. One that is NULL now may be either */
static bool
Define(Ahead *node, Computation *site, FunctionCallInfo fcinfo, PgsealBytes program, int first, int noperands)
{
	int			column;

	/* What is known of the column that it was is known of another */
	if (site->batch != 0)
		encdb_ahead_forget_answers(node);
	site->batch = 0;
	site->noperands = 0;
	MemoryContextReset(site->context);
	for (int i = first; i < first + noperands; i++)
	{
		int			at = site->noperands++;

		if (PG_ARGISNULL(i))
			return false;
		site->column[at] = encdb_ahead_node(PG_GETARG_POINTER(i), &column) == node ? column : -1;
		if (site->column[at] < 0)
			site->constant[at] = Copy(site->context, CellBytes(PG_GETARG_CELL(i)));
	}
	site->program = Copy(site->context, program);
	site->batch = node->batch;
	site->epoch = encdb_epoch;
	memset(site->state, UNASKED, sizeof(site->state));
	return true;
}

static bool
AreSame(PgsealBytes a, PgsealBytes b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static bool
IsConstant(PgsealBytes constant, FunctionCallInfo fcinfo, int argument)
{
	return !PG_ARGISNULL(argument) && AreSame(CellBytes(PG_GETARG_CELL(argument)), constant);
}

/* Whether the call is the one that was defined, for the row that was given last */
static bool
IsDefined(const Ahead *node, const Computation *site, FunctionCallInfo fcinfo, PgsealBytes program, int first, int noperands)
{
	if (site->batch == 0 || site->noperands != noperands || !AreSame(site->program, program))
		return false;
	for (int i = 0; i < site->noperands; i++)
		if (site->column[i] >= 0 ? !encdb_ahead_is_column(node, site->column[i], fcinfo->args[first + i])
			: !IsConstant(site->constant[i], fcinfo, first + i))
			return false;
	return true;
}

/* The operands of a row; false: one is to be fetched first */
static bool
OperandsOf(const Ahead *node, const Computation *site, int row, PgsealBytes *operands)
{
	bool		is_null;

	for (int i = 0; i < site->noperands; i++)
	{
		if (site->column[i] < 0)
			operands[i] = site->constant[i];
		else if (!encdb_ahead_cell(node, row, site->column[i], &operands[i], &is_null))
		{
			if (!is_null)
				return false;
			operands[i] = (PgsealBytes) {NULL, 0};
		}
	}
	return true;
}

static void
TakeResult(Ahead *node, Computation *site, int row, PgsealComputed result)
{
	site->state[row] = !result.told ? UNTOLD : result.cell.len == 0 ? IS_NULL : THERE;
	if (site->state[row] == THERE)
	{
		MemoryContext old = MemoryContextSwitchTo(node->context);

		site->results[row] = (Cell *) DatumGetPointer(encdb_cell_datum(result.cell));
		MemoryContextSwitchTo(old);
	}
}

/* Asks about the rows from the current one on; false: refused */
static bool
EncdbComputationAsk(Ahead *node, Computation *site)
{
	static PgsealBytes operands[MAX_AHEAD * PGSEAL_MOST_OPERANDS];
	static PgsealComputed results[MAX_AHEAD];
	static int	rows[MAX_AHEAD];
	int			n = 0;

	for (int row = node->current; row < EndOfRows(node); row++)
		if ((row == node->current || !encdb_ahead_fails(node, row)) &&
			OperandsOf(node, site, row, operands + n * site->noperands))
			rows[n++] = row;
	if (pgseal_compute_each(site->program, operands, site->noperands, n, results) != 0)
		return false;
	for (int i = 0; i < n; i++)
		TakeResult(node, site, rows[i], results[i]);
	encdb_ahead_asked(node, &site->asking, n);
	return true;
}

/* The program's result for these arguments in the row that was given last; false: to be asked for alone */
bool
encdb_ahead_computed(FunctionCallInfo fcinfo, PgsealBytes program, int first, int noperands, Datum *result, bool *is_null)
{
	Ahead	   *node;
	Computation *site;

	if (!IsAhead())
		return false;
	node = NodeOfArguments(fcinfo, first, noperands);
	site = node ? EncdbComputation(node, fcinfo->flinfo) : NULL;
	if (site == NULL)
		return false;
	if (!IsDefined(node, site, fcinfo, program, first, noperands))
	{
		encdb_ahead_judge(&site->asking);
		if (encdb_ahead_waits(&site->asking) || !Define(node, site, fcinfo, program, first, noperands))
			return false;
	}
	else if (!IsFresh(node, site))
	{
		encdb_ahead_judge(&site->asking);
		memset(site->state, UNASKED, sizeof(site->state));
		site->batch = node->batch;
		site->epoch = encdb_epoch;
	}
	if (site->state[node->current] == UNASKED && (encdb_ahead_waits(&site->asking) || !EncdbComputationAsk(node, site)))
		return false;
	site->asking.nused++;
	*is_null = site->state[node->current] == IS_NULL;
	if (site->state[node->current] == THERE)
		*result = PointerGetDatum(site->results[node->current]);
	return site->state[node->current] == THERE || *is_null;
}

/* The same for one operator or cast, which is never NULL */
bool
encdb_ahead_step(FunctionCallInfo fcinfo, uint8 step, Datum *result)
{
	const uint8 program[] = {'$', '$', step};
	int			skip = lengthof(program) - 1 - PG_NARGS();
	PgsealBytes steps = {program + skip, sizeof(program) - skip};
	bool		is_null;

	return fcinfo->flinfo && encdb_ahead_computed(fcinfo, steps, 0, PG_NARGS(), result, &is_null) && !is_null;
}
