/*
 * aggregate_values.c
 *	  The values that states have collected, as a request has them: cells, and programs with their operands.
 */
#include "aggregate.h"

/* The value at a place, which is then the next one's */
PgsealBytes
encdb_aggregate_next(const uint8 **next)
{
	uint32		len;
	PgsealBytes value;

	memcpy(&len, *next, sizeof(len));
	value = (PgsealBytes) {*next + sizeof(len), len};
	*next += sizeof(len) + len;
	return value;
}

/* The number of a program, from 1 on; 0: there are too many */
static uint8
NumberOf(AggregateValues *values, PgsealBytes program)
{
	for (int i = values->nprograms - 1; i >= 0; i--)
		if (values->programs[i].len == program.len && memcmp(values->programs[i].data, program.data, program.len) == 0)
			return (uint8) (i + 1);
	if (values->nprograms == MAX_PROGRAMS)
		return 0;
	values->programs[values->nprograms++] = program;
	return (uint8) values->nprograms;
}

static bool
AddDeferred(AggregateValues *values, PgsealBytes value)
{
	Deferred	deferred;
	uint8		number;

	encdb_deferred_read(value, &deferred);
	number = NumberOf(values, deferred.program);
	if (number == 0 || values->ncells + deferred.noperands > MAX_CELLS)
		return false;
	values->shape[values->nvalues++] = number;
	memcpy(values->cells + values->ncells, deferred.operands, deferred.noperands * sizeof(PgsealBytes));
	values->ncells += deferred.noperands;
	return true;
}

static bool
AddValue(AggregateValues *values, PgsealBytes value)
{
	if (values->nvalues == MAX_VALUES || values->ncells == MAX_CELLS)
		return false;
	if (encdb_is_deferred(value))
		return AddDeferred(values, value);
	values->shape[values->nvalues++] = 0;
	values->cells[values->ncells++] = value;
	return true;
}

/* Adds the values of a state; false: there is no room for all, and none is added */
bool
encdb_aggregate_add(AggregateValues *values, const AggregateState *state)
{
	int			nprograms = values->nprograms;
	int			nvalues = values->nvalues;
	int			ncells = values->ncells;
	const uint8 *next = state->bytes;

	for (int i = 0; i < state->nvalues; i++)
	{
		if (AddValue(values, encdb_aggregate_next(&next)))
			continue;
		values->nprograms = nprograms;
		values->nvalues = nvalues;
		values->ncells = ncells;
		return false;
	}
	return true;
}

PgsealBatch
encdb_aggregate_batch(const AggregateValues *values, char kind, const char *locale)
{
	PgsealBytes shape = {values->shape, values->nprograms > 0 ? values->nvalues : 0};

	return (PgsealBatch) {kind, locale, values->programs, values->nprograms, shape, values->cells, values->ncells};
}

/* No values yet, until the next call */
static AggregateValues *
NoValues(void)
{
	static AggregateValues values;

	values.nprograms = 0;
	values.nvalues = 0;
	values.ncells = 0;
	return &values;
}

/* The values of one state, until the next call */
PgsealBatch
encdb_aggregate_collected(const AggregateState *state)
{
	AggregateValues *values = NoValues();

	if (!encdb_aggregate_add(values, state))
		elog(ERROR, "an aggregate has collected too much");
	return encdb_aggregate_batch(values, state->kind, state->locale);
}

/* What one row brings, which no state has collected, until the next call */
PgsealBatch
encdb_aggregate_alone(const AggregateState *state, const PgsealBytes *row, int width)
{
	AggregateValues *values = NoValues();

	for (int i = 0; i < width; i++)
		(void) AddValue(values, row[i]);
	return encdb_aggregate_batch(values, state->kind, state->locale);
}
