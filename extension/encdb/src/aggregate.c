/*
 * aggregate.c
 *	  sum, avg, min and max, and aggregates of two numbers: the state is the evaluator's, here is its number.
 *
 * Cells, and what is deferred (deferred.h), are collected, and handed over when BATCH of them or BATCH_BYTES are
 * together; fewer go from parallel workers to their leader as they are. The result is asked for
 * with the cells that were not handed over yet, and ends the state, so that a
 * small group is one request; only a window function, which may ask again after
 * further rows, keeps it. Small groups that are all collected share a request
 * (aggregate_groups.c). A state that is left goes with the memory context of
 * the aggregate, be it by its end or by an error.
 */
#include "aggregate.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define BATCH_BYTES		16384
#define FIRST_BYTES		256		/* a query may have many groups of few rows */

/* Aggregates of two numbers: the cells of a row are collected one behind the other */
#define KINDS_OF_PAIRS	"cPpmirXYxyz"

/* What another process gets of a state */
#define OF_CELLS		'c'
#define OF_EVALUATOR	's'

static bool
IsExtreme(const AggregateState *state)
{
	return state->kind == '<' || state->kind == '>';
}

static void
EncdbAggregateDrop(void *argument)
{
	AggregateState *state = argument;

	if (state->number != 0)
		pgseal_aggregate_drop(state->number);
}

static AggregateState *
MakeState(FunctionCallInfo fcinfo, char kind)
{
	MemoryContext context;
	AggregateState *state;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "aggregate function called in non-aggregate context");
	state = MemoryContextAllocZero(context, sizeof(AggregateState));
	state->kind = kind;
	state->width = strchr(KINDS_OF_PAIRS, kind) ? 2 : 1;
	state->context = context;
	state->gone.func = EncdbAggregateDrop;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(context, &state->gone);
	encdb_aggregate_enlist(state);
	return state;
}

static void
EncdbAggregateForget(AggregateState *state)
{
	state->nvalues = 0;
	state->used = 0;
}

/* Hands over the values that were collected */
static void
EncdbAggregateFlush(AggregateState *state)
{
	PgsealBatch batch;

	if (state->nvalues == 0)
		return;
	batch = encdb_aggregate_collected(state);
	ENCDB_CALL(pgseal_aggregate_step(&state->number, &batch));
	EncdbAggregateForget(state);
}

/* Makes room for so many bytes more */
static void
EncdbAggregateReserve(AggregateState *state, Size more)
{
	Size		wanted = Max(state->allocated, FIRST_BYTES);

	if (state->used + more <= state->allocated)
		return;
	while (wanted < state->used + more)
		wanted *= 2;
	if (state->bytes)
		state->bytes = repalloc(state->bytes, wanted);
	else
		state->bytes = MemoryContextAlloc(state->context, wanted);
	state->allocated = wanted;
}

static void
AppendValue(AggregateState *state, PgsealBytes value)
{
	uint32		len = (uint32) value.len;

	EncdbAggregateReserve(state, sizeof(len) + len);
	memcpy(state->bytes + state->used, &len, sizeof(len));
	memcpy(state->bytes + state->used + sizeof(len), value.data, len);
	state->used += sizeof(len) + len;
	state->nvalues++;
}

/* Adds what a row brings: a cell or a deferred value, or the cells of a pair */
static void
EncdbAggregateCollect(AggregateState *state, const PgsealBytes *values)
{
	int			width = state->width;
	Size		len = 0;

	for (int i = 0; i < width; i++)
		len += values[i].len;
	if (state->nvalues + width > BATCH || state->used + len > BATCH_BYTES)
		EncdbAggregateFlush(state);
	/* Not copied: a group would keep room for it */
	if (len > BATCH_BYTES)
	{
		PgsealBatch batch = encdb_aggregate_alone(state, values, width);

		ENCDB_CALL(pgseal_aggregate_step(&state->number, &batch));
		return;
	}
	for (int i = 0; i < width; i++)
		AppendValue(state, values[i]);
}

static Datum
EncdbAggregateStep(FunctionCallInfo fcinfo, char kind)
{
	AggregateState *state = PG_ARGISNULL(0) ? NULL : (AggregateState *) PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
	{
		Cell	   *cell = PG_GETARG_CELL(1);
		PgsealBytes value = CellBytes(cell);

		if (!state)
			state = MakeState(fcinfo, kind);
		if (IsExtreme(state))
			state->locale = encdb_locale_of(value, PG_GET_COLLATION());
		EncdbAggregateCollect(state, &value);
		PG_FREE_IF_COPY(cell, 1);
	}
	if (!state)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

#define STEP(name, kind) \
	PG_FUNCTION_INFO_V1(encdb_##name##_step); \
	Datum encdb_##name##_step(PG_FUNCTION_ARGS) { return EncdbAggregateStep(fcinfo, kind); }

STEP(sum, 's')
STEP(avg, 'a')
STEP(min, '<')
STEP(max, '>')
STEP(var_pop, 'V')
STEP(var_samp, 'v')
STEP(stddev_pop, 'D')
STEP(stddev_samp, 'd')
STEP(bool_and, '&')
STEP(bool_or, '|')

/* A row counts if both numbers are there */
static Datum
StepPair(FunctionCallInfo fcinfo, char kind)
{
	AggregateState *state = PG_ARGISNULL(0) ? NULL : (AggregateState *) PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1) && !PG_ARGISNULL(2))
	{
		Cell	   *y = PG_GETARG_CELL(1);
		Cell	   *x = PG_GETARG_CELL(2);
		PgsealBytes values[] = {CellBytes(y), CellBytes(x)};

		if (!state)
			state = MakeState(fcinfo, kind);
		EncdbAggregateCollect(state, values);
		PG_FREE_IF_COPY(y, 1);
		PG_FREE_IF_COPY(x, 2);
	}
	if (!state)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

#define STEP_PAIR(name, kind) \
	PG_FUNCTION_INFO_V1(encdb_##name##_step); \
	Datum encdb_##name##_step(PG_FUNCTION_ARGS) { return StepPair(fcinfo, kind); }

STEP_PAIR(corr, 'c')
STEP_PAIR(covar_pop, 'P')
STEP_PAIR(covar_samp, 'p')
STEP_PAIR(regr_slope, 'm')
STEP_PAIR(regr_intercept, 'i')
STEP_PAIR(regr_r2, 'r')
STEP_PAIR(regr_avgx, 'X')
STEP_PAIR(regr_avgy, 'Y')
STEP_PAIR(regr_sxx, 'x')
STEP_PAIR(regr_syy, 'y')
STEP_PAIR(regr_sxy, 'z')

/* The number of rows in which both numbers are there: nobody has to be asked */
PG_FUNCTION_INFO_V1(encdb_regr_count_step);
Datum
encdb_regr_count_step(PG_FUNCTION_ARGS)
{
	return DirectFunctionCall1(int8inc, PG_GETARG_DATUM(0));
}

/* Whether an aggregate takes what is deferred */
bool
encdb_is_sum(Oid aggregate)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Oid			step = HeapTupleIsValid(tuple) ? ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn : InvalidOid;
	FmgrInfo	info;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	/* PostgreSQL's own */
	if (step < FirstNormalObjectId)
		return false;
	fmgr_info(step, &info);
	return info.fn_addr == encdb_sum_step || info.fn_addr == encdb_avg_step;
}

/* Takes in the cells that another state has collected: of few nobody has to be asked */
static void
EncdbAggregateTakeCells(FunctionCallInfo fcinfo, AggregateState *state, const AggregateState *other)
{
	const uint8 *next = other->bytes;
	int			width = state->width;

	for (int i = 0; i < other->nvalues; i += width)
	{
		PgsealBytes values[MAX_WIDTH];

		for (int j = 0; j < width; j++)
			values[j] = encdb_aggregate_next(&next);
		if (IsExtreme(state))
			state->locale = encdb_locale_of(values[0], PG_GET_COLLATION());
		EncdbAggregateCollect(state, values);
	}
}

/* Takes the evaluator's state of another one, which has none then */
static void
TakeNumber(AggregateState *state, AggregateState *other)
{
	EncdbAggregateFlush(other);
	if (state->number == 0 && state->nvalues == 0)
		state->number = other->number;
	else
	{
		EncdbAggregateFlush(state);
		ENCDB_CALL(pgseal_aggregate_combine(state->number, other->number));
	}
	other->number = 0;
}

/* Takes the second state into the first */
PG_FUNCTION_INFO_V1(encdb_aggregate_combine);
Datum
encdb_aggregate_combine(PG_FUNCTION_ARGS)
{
	AggregateState *state = PG_ARGISNULL(0) ? NULL : (AggregateState *) PG_GETARG_POINTER(0);
	AggregateState *other = PG_ARGISNULL(1) ? NULL : (AggregateState *) PG_GETARG_POINTER(1);

	if (!state && !other)
		PG_RETURN_NULL();
	if (!state)
		state = MakeState(fcinfo, other->kind);
	if (other && other->number != 0)
		TakeNumber(state, other);
	else if (other)
		EncdbAggregateTakeCells(fcinfo, state, other);
	PG_RETURN_POINTER(state);
}

/* For another process of the query: the kind, and cells that were collected, or the state as the evaluator seals it */
PG_FUNCTION_INFO_V1(encdb_aggregate_serialize);
Datum
encdb_aggregate_serialize(PG_FUNCTION_ARGS)
{
	AggregateState *state = (AggregateState *) PG_GETARG_POINTER(0);
	StringInfoData message;
	PgsealBytes content = {state->bytes, state->used};

	if (state->number != 0)
	{
		EncdbAggregateFlush(state);
		ENCDB_CALL(pgseal_aggregate_export(state->number, &content));
	}
	pq_begintypsend(&message);
	pq_sendbyte(&message, state->kind);
	pq_sendbyte(&message, state->number != 0 ? OF_EVALUATOR : OF_CELLS);
	pq_sendbytes(&message, (const char *) content.data, (int) content.len);
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

/* Collects cells, each after its length */
static void
ReadCells(AggregateState *state, StringInfo message)
{
	int			width = state->width;

	while (message->cursor < message->len)
	{
		PgsealBytes values[MAX_WIDTH];

		for (int i = 0; i < width; i++)
		{
			uint32		len;

			pq_copymsgbytes(message, (char *) &len, sizeof(len));
			values[i] = (PgsealBytes) {(const uint8 *) pq_getmsgbytes(message, (int) len), len};
		}
		EncdbAggregateCollect(state, values);
	}
}

PG_FUNCTION_INFO_V1(encdb_aggregate_deserialize);
Datum
encdb_aggregate_deserialize(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	StringInfoData message = {VARDATA_ANY(bytes), (int) VARSIZE_ANY_EXHDR(bytes), (int) VARSIZE_ANY_EXHDR(bytes), 0};
	AggregateState *state = MakeState(fcinfo, (char) pq_getmsgbyte(&message));

	if (pq_getmsgbyte(&message) == OF_CELLS)
		ReadCells(state, &message);
	else
		ENCDB_CALL(pgseal_aggregate_import((PgsealBytes) {(const uint8 *) message.data + message.cursor,
														  (size_t) (message.len - message.cursor)}, &state->number));
	PG_RETURN_POINTER(state);
}

static Datum
EncdbAggregateResult(FunctionCallInfo fcinfo, PgsealBytes result, bool is_null)
{
	if (is_null)
		PG_RETURN_NULL();
	return encdb_cell_datum(result);
}

/* After further rows a window asks again: cells that were asked about alone are handed over then */
static Datum
WindowResult(FunctionCallInfo fcinfo, AggregateState *state)
{
	PgsealBatch batch;
	PgsealBytes result;
	int			is_null;

	if (state->asked && state->number == 0)
		EncdbAggregateFlush(state);
	batch = encdb_aggregate_collected(state);
	ENCDB_CALL(pgseal_aggregate_finish(state->number, &batch, state->number != 0, &result, &is_null));
	state->asked = true;
	if (state->number != 0)
		EncdbAggregateForget(state);
	return EncdbAggregateResult(fcinfo, result, is_null != 0);
}

/* Ends a state whose result is known. Aggregates that differ in their final function alone share it, so the result is kept */
void
encdb_aggregate_keep(AggregateState *state, PgsealBytes result)
{
	state->number = 0;
	state->ended = true;
	state->is_null = result.len == 0;
	EncdbAggregateForget(state);
	if (state->is_null)
		return;
	EncdbAggregateReserve(state, result.len);
	memcpy(state->bytes, result.data, result.len);
	state->used = result.len;
}

/* Asks for the result and ends the state */
static void
EncdbAggregateEnd(AggregateState *state)
{
	PgsealBatch batch;
	PgsealBytes result;
	int			is_null;

	if (encdb_aggregate_end_groups(state))
		return;
	batch = encdb_aggregate_collected(state);
	ENCDB_CALL(pgseal_aggregate_finish(state->number, &batch, false, &result, &is_null));
	encdb_aggregate_keep(state, is_null ? (PgsealBytes) {NULL, 0} : result);
}

/* The least and the greatest of one: nobody has to be asked, and no session is needed */
static bool
IsOnlyCell(const AggregateState *state)
{
	return IsExtreme(state) && state->number == 0 && state->nvalues == 1;
}

PG_FUNCTION_INFO_V1(encdb_aggregate_final);
Datum
encdb_aggregate_final(PG_FUNCTION_ARGS)
{
	AggregateState *state = PG_ARGISNULL(0) ? NULL : (AggregateState *) PG_GETARG_POINTER(0);
	const uint8 *first;

	if (!state)
		PG_RETURN_NULL();
	if (IsOnlyCell(state))
	{
		first = state->bytes;
		return encdb_cell_datum(encdb_aggregate_next(&first));
	}
	if (AggCheckCallContext(fcinfo, NULL) == AGG_CONTEXT_WINDOW)
		return WindowResult(fcinfo, state);
	if (!state->ended)
		EncdbAggregateEnd(state);
	return EncdbAggregateResult(fcinfo, (PgsealBytes) {state->bytes, state->used}, state->is_null);
}
