/*
 * text_functions.c
 *	  Functions of encrypted text. Each call is a step of a program (pgext.h), alone or with others (expression.c).
 *
 * Arguments that count are plain numbers, and are part of the step; so is the locale whose letters a function knows.
 */
#include "ahead.h"

#include "nodes/primnodes.h"

/* Their names, their letters in programs, how many arguments are cells, and whether letters count */
#define FOR_EACH_TEXT_FUNCTION(FUNCTION) \
	FUNCTION(substring, 's', 1, false) FUNCTION(lower, 'l', 1, true) FUNCTION(upper, 'u', 1, true)

#define DECLARE(name, letter, noperands, is_cased) extern Datum encdb_##name(PG_FUNCTION_ARGS);
#define ENTRY(name, letter, noperands, is_cased) {encdb_##name, letter, noperands, is_cased},
#define PLACE(name, letter, noperands, is_cased) PLACE_##name,
#define DEFINE(name, letter, noperands, is_cased) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbTextCompute(fcinfo, &functions[PLACE_##name]); }

FOR_EACH_TEXT_FUNCTION(DECLARE)

enum
{
	FOR_EACH_TEXT_FUNCTION(PLACE)
};

static const TextFunction functions[] = {FOR_EACH_TEXT_FUNCTION(ENTRY)};

/* What a function does as a step; NULL: it is none */
const TextFunction *
encdb_text_function(PGFunction function)
{
	for (size_t i = 0; i < lengthof(functions); i++)
		if (functions[i].function == function)
			return &functions[i];
	return NULL;
}

/* A step is shown by EXPLAIN, and ends where it should */
static bool
IsPlainName(const char *locale)
{
	for (const char *at = locale; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == ')')
			return false;
	return strlen(locale) < PGSEAL_MOST_PROGRAM / 2;
}

/* Adds a step with these numbers or this locale; false: it has no form */
static bool
AddStep(const TextFunction *function, const int32 *numbers, int nnumbers, const char *locale, StringInfo steps)
{
	if (locale && !IsPlainName(locale))
		return false;
	appendStringInfo(steps, "(%c%s", function->letter, locale ? locale : "");
	for (int i = 0; i < nnumbers; i++)
		appendStringInfo(steps, i == 0 ? "%d" : ",%d", numbers[i]);
	appendStringInfoChar(steps, ')');
	return true;
}

/* Adds the step of a call, behind those of its operands; false: its plain arguments are no constants, or its collation is unknown */
bool
encdb_text_step(const TextFunction *function, List *arguments, Oid collation, StringInfo steps)
{
	int32		numbers[FUNC_MAX_ARGS];
	int			nnumbers = 0;
	ListCell   *cell;

	if (function->is_cased && !encdb_has_ctype(collation))
		return false;
	for_each_from(cell, arguments, function->noperands)
	{
		Const	   *number = lfirst(cell);

		if (!IsA(number, Const) || number->constisnull)
			return false;
		numbers[nnumbers++] = DatumGetInt32(number->constvalue);
	}
	return AddStep(function, numbers, nnumbers, function->is_cased ? encdb_ctype(collation) : NULL, steps);
}

/* The program of one call */
static PgsealBytes
ProgramOfCall(FunctionCallInfo fcinfo, const TextFunction *function, StringInfo steps)
{
	int32		numbers[FUNC_MAX_ARGS];
	int			nnumbers = 0;

	for (int i = 0; i < function->noperands; i++)
		appendStringInfoChar(steps, '$');
	for (int i = function->noperands; i < PG_NARGS(); i++)
		numbers[nnumbers++] = PG_GETARG_INT32(i);
	if (!AddStep(function, numbers, nnumbers, function->is_cased ? encdb_ctype(PG_GET_COLLATION()) : NULL, steps))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("encrypted text has no upper and lower case under a locale of such a name")));
	return (PgsealBytes) {(const uint8_t *) steps->data, steps->len};
}

static Datum
EncdbTextCompute(FunctionCallInfo fcinfo, const TextFunction *function)
{
	StringInfoData steps;
	PgsealBytes operands[PGSEAL_MOST_OPERANDS];
	PgsealBytes program;
	PgsealBytes result;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	ENCDB_STAND_IN(PG_GETARG_CELL(0));
	initStringInfo(&steps);
	program = ProgramOfCall(fcinfo, function, &steps);
	if (encdb_ahead_computed(fcinfo, program, 0, function->noperands, &computed, &is_null_ahead) && !is_null_ahead)
		return computed;
	for (int i = 0; i < function->noperands; i++)
		operands[i] = CellBytes(PG_GETARG_CELL(i));
	ENCDB_CALL(pgseal_compute(program, operands, function->noperands, &result, &is_null));
	return encdb_cell_datum(result);
}

FOR_EACH_TEXT_FUNCTION(DEFINE)
