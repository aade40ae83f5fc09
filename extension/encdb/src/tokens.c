/*
 * tokens.c
 *	  Indexes of words and of trigrams: a GIN index whose keys are tokens, which the evaluator makes of parts of texts by the owner's
 *	  key. The index needs the evaluator for what goes in and for what is looked for, and for nothing else: VACUUM, recovery and the
 *	  merge of its pending list see numbers.
 *
 *	  What is found is matched again, by LIKE or @@: it asks for the rights to the text, too, whose token is the owner's and not the key's.
 */
#include "encdb.h"

#include "access/gin.h"
#include "utils/builtins.h"

/* Tokens as keys of GIN */
static Datum *
Keys(PgsealBytes tokens, int32 *nkeys)
{
	Datum	   *keys;

	*nkeys = (int32) (tokens.len / sizeof(int64));
	keys = palloc(Max(*nkeys, 1) * sizeof(Datum));
	for (int i = 0; i < *nkeys; i++)
	{
		int64		token;

		memcpy(&token, tokens.data + i * sizeof(int64), sizeof(int64));
		keys[i] = Int64GetDatum(token);
	}
	return keys;
}

static Datum
KeysOfValue(FunctionCallInfo fcinfo, int parts)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	const char *locale = encdb_ctype(PG_GET_COLLATION());
	PgsealBytes tokens;
	int			told;
	Datum	   *keys;

	ENCDB_CALL(pgseal_tokens(CellBytes(cell), parts, locale, &tokens, &told));
	keys = Keys(tokens, (int32 *) PG_GETARG_POINTER(1));
	PG_FREE_IF_COPY(cell, 0);
	PG_RETURN_POINTER(keys);
}

/*
 * What is looked for. The planner asks, too, and raises no error that a scan of an empty table would not: what is refused here is
 * refused again when the operator meets a text.
 */
static Datum
KeysOfQuery(FunctionCallInfo fcinfo, int parts, bool empty_finds_all)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	int32	   *nkeys = (int32 *) PG_GETARG_POINTER(1);
	int32	   *mode = (int32 *) PG_GETARG_POINTER(6);
	const char *locale = encdb_ctype(PG_GET_COLLATION());
	PgsealBytes tokens;
	int			told;

	if (!ENCDB_TRY(pgseal_tokens(CellBytes(cell), parts, locale, &tokens, &told)) || !told)
	{
		*nkeys = 0;
		*mode = GIN_SEARCH_MODE_ALL;
		PG_RETURN_POINTER(NULL);
	}
	if (tokens.len == 0 && empty_finds_all)
		*mode = GIN_SEARCH_MODE_ALL;
	PG_RETURN_POINTER(Keys(tokens, nkeys));
}

PG_FUNCTION_INFO_V1(encdb_words_of_value);
Datum
encdb_words_of_value(PG_FUNCTION_ARGS)
{
	return KeysOfValue(fcinfo, PGSEAL_WORDS);
}

PG_FUNCTION_INFO_V1(encdb_trigrams_of_value);
Datum
encdb_trigrams_of_value(PG_FUNCTION_ARGS)
{
	return KeysOfValue(fcinfo, PGSEAL_TRIGRAMS);
}

/* A text without words is in no text, so nothing is looked at without a key */
PG_FUNCTION_INFO_V1(encdb_words_of_query);
Datum
encdb_words_of_query(PG_FUNCTION_ARGS)
{
	return KeysOfQuery(fcinfo, PGSEAL_WORDS, false);
}

/* A pattern without a run of three characters may match any text. So may one whose trigrams are not told to this session */
PG_FUNCTION_INFO_V1(encdb_trigrams_of_pattern);
Datum
encdb_trigrams_of_pattern(PG_FUNCTION_ARGS)
{
	return KeysOfQuery(fcinfo, PGSEAL_PATTERN_TRIGRAMS, true);
}

/* Whether a text has all tokens that are looked for: it is matched then */
PG_FUNCTION_INFO_V1(encdb_tokens_consistent);
Datum
encdb_tokens_consistent(PG_FUNCTION_ARGS)
{
	const bool *check = (bool *) PG_GETARG_POINTER(0);
	int32		nkeys = PG_GETARG_INT32(3);
	bool	   *recheck = (bool *) PG_GETARG_POINTER(5);

	*recheck = true;
	for (int i = 0; i < nkeys; i++)
		if (!check[i])
			PG_RETURN_BOOL(false);
	PG_RETURN_BOOL(true);
}

/* The same, where it is not known of all tokens: so that rare ones are looked up first */
PG_FUNCTION_INFO_V1(encdb_tokens_triconsistent);
Datum
encdb_tokens_triconsistent(PG_FUNCTION_ARGS)
{
	const GinTernaryValue *check = (GinTernaryValue *) PG_GETARG_POINTER(0);
	int32		nkeys = PG_GETARG_INT32(3);

	for (int i = 0; i < nkeys; i++)
		if (check[i] == GIN_FALSE)
			PG_RETURN_GIN_TERNARY_VALUE(GIN_FALSE);
	PG_RETURN_GIN_TERNARY_VALUE(GIN_MAYBE);
}
