/*
 * arithmetic.c
 *	  Operators that make new cells of numbers: arithmetic, casts, fields of times.
 */
#include "ahead.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#define BINARY(name, operator) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbArithmeticBinary(fcinfo, operator); }

#define UNARY(name, operator) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbArithmeticUnary(fcinfo, operator); }

#define CAST(name, byte) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbArithmeticConvert(fcinfo, byte); }

static Datum
EncdbArithmeticBinary(FunctionCallInfo fcinfo, uint8 operator)
{
	Cell	   *left = PG_GETARG_CELL(0);
	Cell	   *right = PG_GETARG_CELL(1);
	PgsealBytes result;
	Datum		computed;

	ENCDB_STAND_IN(left);
	if (encdb_ahead_step(fcinfo, operator, &computed))
		return computed;
	ENCDB_CALL(pgseal_arithmetic(operator, CellBytes(left), CellBytes(right), &result));
	return encdb_cell_datum(result);
}

static Datum
EncdbArithmeticUnary(FunctionCallInfo fcinfo, uint8 operator)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	PgsealBytes result;
	Datum		computed;

	ENCDB_STAND_IN(cell);
	if (encdb_ahead_step(fcinfo, operator, &computed))
		return computed;
	ENCDB_CALL(pgseal_unary(operator, CellBytes(cell), &result));
	return encdb_cell_datum(result);
}

static Datum
EncdbArithmeticConvert(FunctionCallInfo fcinfo, uint8 type)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	PgsealBytes result;
	Datum		computed;

	ENCDB_STAND_IN(cell);
	if (encdb_ahead_step(fcinfo, PGSEAL_CAST + type, &computed))
		return computed;
	ENCDB_CALL(pgseal_cast(CellBytes(cell), type, &result));
	return encdb_cell_datum(result);
}

FOR_EACH_BINARY(BINARY)
FOR_EACH_UNARY(UNARY)
FOR_EACH_CAST(CAST)

static Datum
AddInterval(uint8 operator, Cell *cell, Interval *interval)
{
	PgsealInterval plain = {interval->time, interval->day, interval->month};
	PgsealBytes result;

	ENCDB_STAND_IN(cell);
	ENCDB_CALL(pgseal_add_interval(operator, CellBytes(cell), plain, &result));
	return encdb_cell_datum(result);
}

/* Intervals are plain, as the numbers of substring are */
PG_FUNCTION_INFO_V1(encdb_add_interval);
Datum
encdb_add_interval(PG_FUNCTION_ARGS)
{
	return AddInterval('+', PG_GETARG_CELL(0), PG_GETARG_INTERVAL_P(1));
}

PG_FUNCTION_INFO_V1(encdb_interval_add);
Datum
encdb_interval_add(PG_FUNCTION_ARGS)
{
	return AddInterval('+', PG_GETARG_CELL(1), PG_GETARG_INTERVAL_P(0));
}

PG_FUNCTION_INFO_V1(encdb_sub_interval);
Datum
encdb_sub_interval(PG_FUNCTION_ARGS)
{
	return AddInterval('-', PG_GETARG_CELL(0), PG_GETARG_INTERVAL_P(1));
}

static void
RefuseUnit(text *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unit \"%s\" not recognized for encrypted times", text_to_cstring(name))));
}

/* extract(field FROM cell): the name of the field is no secret */
PG_FUNCTION_INFO_V1(encdb_extract);
Datum
encdb_extract(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);
	Cell	   *cell = PG_GETARG_CELL(1);
	uint8		program[] = {'$', pgseal_field_step(CellBytes(name))};
	PgsealBytes result;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	if (program[1] == 0)
		RefuseUnit(name);
	ENCDB_STAND_IN(cell);
	if (encdb_ahead_computed(fcinfo, (PgsealBytes) {program, sizeof(program)}, 1, 1, &computed, &is_null_ahead))
	{
		if (is_null_ahead)
			PG_RETURN_NULL();
		return computed;
	}
	ENCDB_CALL(pgseal_extract(CellBytes(name), CellBytes(cell), &result, &is_null));
	if (is_null)
		PG_RETURN_NULL();
	return encdb_cell_datum(result);
}

/* date_trunc(unit, cell) */
PG_FUNCTION_INFO_V1(encdb_date_trunc);
Datum
encdb_date_trunc(PG_FUNCTION_ARGS)
{
	text	   *unit = PG_GETARG_TEXT_PP(0);
	Cell	   *cell = PG_GETARG_CELL(1);
	uint8		steps[] = {'$', '(', 'D', pgseal_unit_step(CellBytes(unit)), ')'};
	PgsealBytes program = {steps, sizeof(steps)};
	PgsealBytes operand;
	PgsealBytes result;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	if (steps[3] == 0)
		RefuseUnit(unit);
	ENCDB_STAND_IN(cell);
	if (encdb_ahead_computed(fcinfo, program, 1, 1, &computed, &is_null_ahead) && !is_null_ahead)
		return computed;
	operand = CellBytes(cell);
	ENCDB_CALL(pgseal_compute(program, &operand, 1, &result, &is_null));
	return encdb_cell_datum(result);
}
