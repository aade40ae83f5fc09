/*
 * string_agg.c
 *	  Texts joined to one: string_agg, concat and concat_ws.
 *
 * Cells are collected, and joined by one program for as many as a program takes.
 */
#include "encdb.h"

#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Cells that were not joined yet */
typedef struct Joined
{
	MemoryContext context;
	int			n;
	Cell	   *cells[PGSEAL_MOST_OPERANDS];
} Joined;

static Joined *
MakeJoined(MemoryContext context)
{
	Joined	   *joined = MemoryContextAllocZero(context, sizeof(Joined));

	joined->context = context;
	return joined;
}

static Cell *
CopyCell(MemoryContext context, const Cell *cell)
{
	Size		size = VARSIZE_ANY(cell);
	Cell	   *copy = MemoryContextAlloc(context, size);

	memcpy(copy, cell, size);
	return copy;
}

/* Puts one cell in place of all that were collected */
static void
JoinAll(Joined *joined)
{
	PgsealBytes operands[PGSEAL_MOST_OPERANDS];
	char		steps[2 * PGSEAL_MOST_OPERANDS] = "$";
	int			len = 1;
	PgsealBytes result;
	int			is_null;
	Cell	   *cell;

	for (int i = 0; i < joined->n; i++)
	{
		operands[i] = CellBytes(joined->cells[i]);
		if (i == 0)
			continue;
		steps[len++] = '$';
		steps[len++] = '|';
	}
	ENCDB_CALL(pgseal_compute((PgsealBytes) {(const uint8_t *) steps, (size_t) len}, operands, (size_t) joined->n, &result, &is_null));
	cell = (Cell *) DatumGetPointer(encdb_cell_datum(result));
	for (int i = 0; i < joined->n; i++)
		pfree(joined->cells[i]);
	joined->cells[0] = CopyCell(joined->context, cell);
	joined->n = 1;
	pfree(cell);
}

static void
TakeCell(Joined *joined, const Cell *cell)
{
	if (joined->n == PGSEAL_MOST_OPERANDS)
		JoinAll(joined);
	joined->cells[joined->n++] = CopyCell(joined->context, cell);
}

/* The result, in the caller's memory: a window goes on with the state */
static Datum
JoinedDatum(Joined *joined)
{
	if (joined->n > 1)
		JoinAll(joined);
	return PointerGetDatum(CopyCell(CurrentMemoryContext, joined->cells[0]));
}

/* The delimiter of a row comes before its text, and that of the first one nowhere */
PG_FUNCTION_INFO_V1(encdb_string_agg_step);
Datum
encdb_string_agg_step(PG_FUNCTION_ARGS)
{
	Joined	   *joined = PG_ARGISNULL(0) ? NULL : (Joined *) PG_GETARG_POINTER(0);
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "encdb_string_agg_step called in non-aggregate context");
	if (!PG_ARGISNULL(1))
	{
		if (!joined)
			joined = MakeJoined(context);
		else if (!PG_ARGISNULL(2))
			TakeCell(joined, PG_GETARG_CELL(2));
		TakeCell(joined, PG_GETARG_CELL(1));
	}
	if (!joined)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(joined);
}

PG_FUNCTION_INFO_V1(encdb_string_agg_final);
Datum
encdb_string_agg_final(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(JoinedDatum((Joined *) PG_GETARG_POINTER(0)));
}

/* Collects what is not NULL in an array, with a separator between, if there is one */
static Joined *
JoinedOfArray(ArrayType *array, const Cell *separator)
{
	Joined	   *joined = MakeJoined(CurrentMemoryContext);
	int16		length;
	bool		by_value;
	char		align;
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &elements, &nulls, &nelements);
	for (int i = 0; i < nelements; i++)
	{
		if (nulls[i])
			continue;
		if (separator && joined->n > 0)
			TakeCell(joined, separator);
		TakeCell(joined, (Cell *) PG_DETOAST_DATUM_PACKED(elements[i]));
	}
	return joined;
}

/* concat(VARIADIC cells) */
PG_FUNCTION_INFO_V1(encdb_concat_all);
Datum
encdb_concat_all(PG_FUNCTION_ARGS)
{
	Joined	   *joined;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	joined = JoinedOfArray(PG_GETARG_ARRAYTYPE_P(0), NULL);
	if (joined->n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the empty text that concat makes of nulls alone has no key to be encrypted with"),
				 errhint("Give concat an encrypted text that is not NULL, such as an empty one.")));
	ENCDB_STAND_IN(joined->cells[0]);
	PG_RETURN_DATUM(JoinedDatum(joined));
}

/* concat_ws(separator, VARIADIC cells): of nulls alone it makes the empty text, by the key of the separator */
PG_FUNCTION_INFO_V1(encdb_concat_ws);
Datum
encdb_concat_ws(PG_FUNCTION_ARGS)
{
	static const char begin[] = "$(h0)";
	Cell	   *separator;
	Joined	   *joined;
	PgsealBytes operand;
	PgsealBytes result;
	int			is_null;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	separator = PG_GETARG_CELL(0);
	ENCDB_STAND_IN(separator);
	joined = JoinedOfArray(PG_GETARG_ARRAYTYPE_P(1), separator);
	if (joined->n > 0)
		PG_RETURN_DATUM(JoinedDatum(joined));
	operand = CellBytes(separator);
	ENCDB_CALL(pgseal_compute((PgsealBytes) {(const uint8_t *) begin, strlen(begin)}, &operand, 1, &result, &is_null));
	return encdb_cell_datum(result);
}
