/*
 * limit.c
 *	  The limits of columns: enc_text(n), enc_decimal(precision, scale).
 *
 * Modifiers of types are those of varchar and numeric. PostgreSQL calls a function here for what is assigned to such a column,
 * which the evaluator answers, under a grant of its own. It gives back a cell that is within the limit, and computes another one
 * otherwise. A text that has no more bytes than the limit has characters is within it: nobody is asked.
 *
 * COPY and logical replication call no such function. They store cells as they are, as a restore without keys must.
 */
#include "encdb.h"

/* The modifier of numeric(precision, scale), since PostgreSQL 15: the scale has 11 bits, and a sign */
#define NumericPrecision(modifier)	((((modifier) - VARHDRSZ) >> 16) & 0xffff)
#define NumericScale(modifier)		(((((modifier) - VARHDRSZ) & 0x7ff) ^ 1024) - 1024)

/* Whether a text's bytes are so few that its characters cannot be more than the limit */
static bool
IsShort(Cell *cell, int32 modifier)
{
	return IsVersion1(cell) && VARSIZE_ANY_EXHDR(cell) - CELL_HEADER <= (Size) (modifier - VARHDRSZ);
}

/* The cell that a column with this modifier holds: this one, or another one */
static Datum
Limited(Cell *cell, const char *program)
{
	PgsealBytes operand = CellBytes(cell);
	PgsealBytes result;
	int			is_null;

	ENCDB_CALL(pgseal_compute((PgsealBytes) {(const uint8_t *) program, strlen(program)}, &operand, 1, &result, &is_null));
	return encdb_cell_datum(result);
}

/* encdb.enc_text_limit(enc_text, modifier, is an explicit cast) */
PG_FUNCTION_INFO_V1(encdb_text_limit);
Datum
encdb_text_limit(PG_FUNCTION_ARGS)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	int32		modifier = PG_GETARG_INT32(1);
	char		program[32];

	ENCDB_STAND_IN(cell);
	if (modifier < VARHDRSZ || IsShort(cell, modifier))
		PG_RETURN_POINTER(cell);
	snprintf(program, sizeof(program), "$(%c%d)", PG_GETARG_BOOL(2) ? 'W' : 'V', modifier - VARHDRSZ);
	return Limited(cell, program);
}

/* encdb.enc_decimal_limit(enc_decimal, modifier, is an explicit cast) */
PG_FUNCTION_INFO_V1(encdb_decimal_limit);
Datum
encdb_decimal_limit(PG_FUNCTION_ARGS)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	int32		modifier = PG_GETARG_INT32(1);
	char		program[32];

	ENCDB_STAND_IN(cell);
	if (modifier < VARHDRSZ)
		PG_RETURN_POINTER(cell);
	snprintf(program, sizeof(program), "$(N%d,%d)", NumericPrecision(modifier), NumericScale(modifier));
	return Limited(cell, program);
}
