/*
 * text_functions.c
 *	  Functions of encrypted text, numbers that are rounded, and times. Each call is a step of a program (pgext.h), alone or with
 *	  others (expression.c).
 *
 * The arguments behind the cells are plain, and are part of the step; so is the locale whose letters a function knows. Where a
 * plain text is looked for, the evaluator asks for the right to compare what was computed, as it does not where the text is a cell.
 */
#include "ahead.h"

#include "nodes/primnodes.h"

/* Their names, their letters in programs, their arguments, and what they need of a collation */
#define FOR_EACH_TEXT_FUNCTION(FUNCTION) \
	FUNCTION(substring, 's', "cnn", RULES_NONE) FUNCTION(left, 'h', "cn", RULES_NONE) FUNCTION(right, 't', "cn", RULES_NONE) \
	FUNCTION(reverse, 'v', "c", RULES_NONE) FUNCTION(repeat, 'n', "cn", RULES_NONE) \
	FUNCTION(lpad, 'j', "cnt", RULES_NONE) FUNCTION(rpad, 'k', "cnt", RULES_NONE) \
	FUNCTION(lower, 'l', "c", RULES_LETTERS) FUNCTION(upper, 'u', "c", RULES_LETTERS) FUNCTION(initcap, 'i', "c", RULES_LETTERS) \
	FUNCTION(btrim, 'b', "cc", RULES_NONE) FUNCTION(btrim_plain, 'b', "ct", RULES_NONE) \
	FUNCTION(ltrim, 'f', "cc", RULES_NONE) FUNCTION(ltrim_plain, 'f', "ct", RULES_NONE) \
	FUNCTION(rtrim, 'e', "cc", RULES_NONE) FUNCTION(rtrim_plain, 'e', "ct", RULES_NONE) \
	FUNCTION(round, 'R', "cn", RULES_NONE) FUNCTION(trunc, 'T', "cn", RULES_NONE) \
	FUNCTION(ceil, 'C', "c", RULES_NONE) FUNCTION(floor, 'F', "c", RULES_NONE) \
	FUNCTION(similar_to_escape, 'g', "ct", RULES_NONE) FUNCTION(to_char, 'M', "ct", RULES_NONE) \
	FUNCTION(position, 'p', "cc", RULES_SEARCH) \
	FUNCTION(replace, 'r', "ccc", RULES_SEARCH) FUNCTION(replace_plain, 'r', "ctt", RULES_SEARCH) \
	FUNCTION(split_part, 'd', "ccn", RULES_SEARCH) FUNCTION(split_part_plain, 'd', "ctn", RULES_SEARCH)

/* Those of times.c: the kind of their plain argument comes before the cell */
#define FOR_EACH_TIME_FUNCTION(FUNCTION) \
	FUNCTION(extract, 0, "fc", RULES_NONE) FUNCTION(date_part, 0, "pc", RULES_NONE) FUNCTION(date_trunc, 0, "uc", RULES_NONE) FUNCTION(timezone, 0, "zc", RULES_NONE)

#define DECLARE(name, letter, arguments, rules) extern Datum encdb_##name(PG_FUNCTION_ARGS);
#define ENTRY(name, letter, arguments, rules) {encdb_##name, letter, arguments, rules},
#define PLACE(name, letter, arguments, rules) PLACE_##name,
#define DEFINE(name, letter, arguments, rules) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbTextCompute(fcinfo, &functions[PLACE_##name]); }

FOR_EACH_TEXT_FUNCTION(DECLARE)
FOR_EACH_TIME_FUNCTION(DECLARE)

enum
{
	FOR_EACH_TEXT_FUNCTION(PLACE)
};

static const TextFunction functions[] = {FOR_EACH_TEXT_FUNCTION(ENTRY) FOR_EACH_TIME_FUNCTION(ENTRY)};

/* What a step is made of, beside its operands */
typedef struct StepParts
{
	const TextFunction *function;
	int			noperands;
	const char *locale;			/* of RULES_LETTERS */
	int			nplain;
	Datum		plain[FUNC_MAX_ARGS];	/* the arguments behind the cells */
} StepParts;

/* What a function does as a step; NULL: it is none */
const TextFunction *
encdb_text_function(PGFunction function)
{
	for (size_t i = 0; i < lengthof(functions); i++)
		if (functions[i].function == function)
			return &functions[i];
	return NULL;
}

/* The number of arguments before the first cell */
int
encdb_text_first(const TextFunction *function)
{
	return (int) strcspn(function->arguments, "c");
}

/* How many of so many arguments are cells */
int
encdb_text_operands(const TextFunction *function, int narguments)
{
	int			first = encdb_text_first(function);

	return Min((int) strspn(function->arguments + first, "c"), narguments - first);
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

/* Adds a plain text in quotes; false: it has no form in UTF-8, is too long, or is a cell whose type nobody gave */
static bool
AddText(text *value, StringInfo steps)
{
	PgsealBytes utf8;

	if (!encdb_to_utf8(value, &utf8) || utf8.len > PGSEAL_MOST_PROGRAM || encdb_is_written_cell(utf8))
		return false;
	appendStringInfoChar(steps, '"');
	for (size_t i = 0; i < utf8.len; i++)
	{
		uint8		byte = utf8.data[i];

		if (byte >= ' ' && byte <= '~' && strchr("%\",)", byte) == NULL)
			appendStringInfoChar(steps, (char) byte);
		else
			appendStringInfo(steps, "%%%02x", byte);
	}
	appendStringInfoChar(steps, '"');
	return true;
}

/* Whether an argument behind the cells is a text */
static bool
IsText(const StepParts *parts, int i)
{
	return parts->function->arguments[parts->noperands + i] == 't';
}

/* Adds a step; false: it has no form */
static bool
AddStep(const StepParts *parts, StringInfo steps)
{
	const char *comma = "";

	if (parts->locale && !IsPlainName(parts->locale))
		return false;
	appendStringInfo(steps, "(%c%s", parts->function->letter, parts->locale ? parts->locale : "");
	for (int i = 1; i < parts->noperands; i++, comma = ",")
		appendStringInfo(steps, "%s$", comma);
	for (int i = 0; i < parts->nplain; i++, comma = ",")
	{
		appendStringInfoString(steps, comma);
		if (!IsText(parts, i))
			appendStringInfo(steps, "%d", DatumGetInt32(parts->plain[i]));
		else if (!AddText(DatumGetTextPP(parts->plain[i]), steps))
			return false;
	}
	appendStringInfoChar(steps, ')');
	return steps->len <= PGSEAL_MOST_PROGRAM;
}

/* Whether the evaluator can follow a collation, as far as a function needs it */
static bool
HasRules(const TextFunction *function, Oid collation)
{
	switch (function->rules)
	{
		case RULES_LETTERS:
			return encdb_has_ctype(collation);
		case RULES_SEARCH:
			return encdb_has_rules(collation);
		default:
			return true;
	}
}

/* Adds the step of a call, behind those of its operands; false: its plain arguments are no constants, or its collation is unknown */
bool
encdb_text_step(const TextFunction *function, List *arguments, Oid collation, StringInfo steps)
{
	StepParts	parts = {function, encdb_text_operands(function, list_length(arguments))};
	int			first = encdb_text_first(function);

	if (!HasRules(function, collation))
		return false;
	if (function->rules == RULES_LETTERS)
		parts.locale = encdb_ctype(collation);
	for (int i = 0; i < list_length(arguments); i++)
	{
		Const	   *plain = list_nth(arguments, i);

		if (i >= first && i < first + parts.noperands)
			continue;
		if (!IsA(plain, Const) || plain->constisnull)
			return false;
		parts.plain[parts.nplain++] = plain->constvalue;
	}
	if (first > 0)
		return encdb_time_step_stays(function->arguments[0], DatumGetTextPP(parts.plain[0])) &&
			encdb_time_step(function->arguments[0], DatumGetTextPP(parts.plain[0]), steps);
	return AddStep(&parts, steps);
}

/* Raises why a step has no form */
static void
RefuseStep(const StepParts *parts)
{
	if (parts->function->rules == RULES_LETTERS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("encrypted text has no upper and lower case under a locale of such a name")));
	for (int i = 0; i < parts->nplain; i++)
		if (IsText(parts, i) && encdb_is_written_cell(encdb_utf8(DatumGetTextPP(parts->plain[i]))))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("an encrypted value is given to a function of encrypted text as a plain text"),
					 errhint("Give the literal or the parameter the type enc_text.")));
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("the plain texts given to a function of encrypted text are too long"),
			 parts->function->letter == 'M' ? errhint("A format has about 200 bytes at most.") :
			 errhint("Give them as encrypted values.")));
}

/* The program of one call */
static PgsealBytes
ProgramOfCall(FunctionCallInfo fcinfo, const TextFunction *function, int noperands)
{
	StepParts	parts = {function, noperands};
	StringInfoData steps;

	if (function->rules == RULES_LETTERS)
		parts.locale = encdb_ctype(PG_GET_COLLATION());
	else if (function->rules == RULES_SEARCH)
		(void) encdb_locale(PG_GET_COLLATION());
	initStringInfo(&steps);
	for (int i = 0; i < noperands; i++)
		appendStringInfoChar(&steps, '$');
	for (int i = noperands; i < PG_NARGS(); i++)
		parts.plain[parts.nplain++] = PG_GETARG_DATUM(i);
	if (!AddStep(&parts, &steps))
		RefuseStep(&parts);
	return (PgsealBytes) {(const uint8_t *) steps.data, steps.len};
}

static Datum
EncdbTextCompute(FunctionCallInfo fcinfo, const TextFunction *function)
{
	int			noperands = encdb_text_operands(function, PG_NARGS());
	PgsealBytes operands[PGSEAL_MOST_OPERANDS];
	PgsealBytes program;
	PgsealBytes result;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	ENCDB_STAND_IN(PG_GETARG_CELL(0));
	program = ProgramOfCall(fcinfo, function, noperands);
	if (encdb_ahead_computed(fcinfo, program, 0, noperands, &computed, &is_null_ahead))
	{
		if (is_null_ahead)
			PG_RETURN_NULL();
		return computed;
	}
	for (int i = 0; i < noperands; i++)
		operands[i] = CellBytes(PG_GETARG_CELL(i));
	ENCDB_CALL(pgseal_compute(program, operands, noperands, &result, &is_null));
	/* An infinite time has no characters */
	if (is_null)
		PG_RETURN_NULL();
	return encdb_cell_datum(result);
}

FOR_EACH_TEXT_FUNCTION(DEFINE)
