/*
 * arithmetic.c
 *	  Operators that make new cells of numbers: arithmetic, casts, times with intervals.
 */
#include "ahead.h"

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
