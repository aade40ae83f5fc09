/*
 * text.c
 *	  Operators on encrypted text.
 */
#include "ahead.h"

PG_FUNCTION_INFO_V1(encdb_concat);
Datum
encdb_concat(PG_FUNCTION_ARGS)
{
	Cell	   *left = PG_GETARG_CELL(0);
	Cell	   *right = PG_GETARG_CELL(1);
	PgsealBytes result;
	Datum		computed;

	ENCDB_STAND_IN(left);
	if (encdb_ahead_step(fcinfo, '|', &computed))
		return computed;
	ENCDB_CALL(pgseal_concat(CellBytes(left), CellBytes(right), &result));
	return encdb_cell_datum(result);
}

/*
 * Whether LIKE, or NOT LIKE, or starts_with has the wanted outcome. In ANALYZE it has: that takes a partial index for as large as its table,
 * rather than for empty.
 */
static bool
EncdbTextLike(FunctionCallInfo fcinfo, int how, bool wanted)
{
	Cell	   *text = PG_GETARG_CELL(0);
	Cell	   *pattern = PG_GETARG_CELL(1);
	const char *locale = NULL;
	int			matches;

	if (unlikely(encdb_in_analyze()))
		return true;
	if (how == PGSEAL_ILIKE)
		locale = encdb_ctype(PG_GET_COLLATION());
	else
		/* Only to refuse what is neither C's nor libc's */
		(void) encdb_locale_of(CellBytes(text), PG_GET_COLLATION());
	if (!encdb_ahead_like(fcinfo->flinfo, text, pattern, how, locale, &matches))
		ENCDB_CALL(pgseal_like(CellBytes(text), CellBytes(pattern), how, locale, &matches));
	return (matches != 0) == wanted;
}

PG_FUNCTION_INFO_V1(encdb_like);
Datum
encdb_like(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(EncdbTextLike(fcinfo, PGSEAL_LIKE, true));
}

PG_FUNCTION_INFO_V1(encdb_nlike);
Datum
encdb_nlike(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(EncdbTextLike(fcinfo, PGSEAL_LIKE, false));
}

PG_FUNCTION_INFO_V1(encdb_ilike);
Datum
encdb_ilike(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(EncdbTextLike(fcinfo, PGSEAL_ILIKE, true));
}

PG_FUNCTION_INFO_V1(encdb_nilike);
Datum
encdb_nilike(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(EncdbTextLike(fcinfo, PGSEAL_ILIKE, false));
}

PG_FUNCTION_INFO_V1(encdb_starts_with);
Datum
encdb_starts_with(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(EncdbTextLike(fcinfo, PGSEAL_STARTS_WITH, true));
}

/* What LIKE ... ESCAPE calls with its pattern; the escape is plain */
PG_FUNCTION_INFO_V1(encdb_like_escape);
Datum
encdb_like_escape(PG_FUNCTION_ARGS)
{
	Cell	   *pattern = PG_GETARG_CELL(0);
	text	   *escape = PG_GETARG_TEXT_PP(1);
	PgsealBytes utf8 = encdb_utf8(escape);
	PgsealBytes result;

	/* The pattern as it is stays what a client sealed, with its rights */
	if (utf8.len == 1 && utf8.data[0] == '\\')
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	ENCDB_STAND_IN(pattern);
	ENCDB_CALL(pgseal_like_escape(CellBytes(pattern), utf8, &result));
	return encdb_cell_datum(result);
}

PG_FUNCTION_INFO_V1(encdb_length);
Datum
encdb_length(PG_FUNCTION_ARGS)
{
	Cell	   *text = PG_GETARG_CELL(0);
	PgsealBytes result;
	Datum		computed;

	ENCDB_STAND_IN(text);
	if (encdb_ahead_step(fcinfo, '#', &computed))
		return computed;
	ENCDB_CALL(pgseal_length(CellBytes(text), &result));
	return encdb_cell_datum(result);
}
