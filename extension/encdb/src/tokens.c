/*
 * tokens.c
 *	  Indexes of words and of trigrams: a GIN index whose keys are tokens, which the evaluator makes of parts of texts by the owner's
 *	  key. The index needs the evaluator for what goes in and for what is looked for, and for nothing else: VACUUM, recovery and the
 *	  merge of its pending list see numbers.
 *
 *	  What is found by trigrams is matched again, by LIKE. What is found by words is found: @@ says of two texts what their words say.
 */
#include "encdb.h"

#include "access/gin.h"
#include "access/stratnum.h"
#include "utils/builtins.h"

/* The operators of the classes */
enum
{
	STRATEGY_LIKE = 1,
	STRATEGY_ILIKE,
	STRATEGY_WORDS
};

/* The tokens of a text as keys of GIN; false: they are not told */
static bool
Keys(Cell *cell, int parts, Oid collation, Datum **keys, int32 *nkeys)
{
	PgsealBytes tokens;
	int			told;

	ENCDB_CALL(pgseal_tokens(CellBytes(cell), parts, encdb_ctype(collation), &tokens, &told));
	*nkeys = (int32) (tokens.len / sizeof(int64));
	*keys = *nkeys > 0 ? palloc(*nkeys * sizeof(Datum)) : NULL;
	for (int i = 0; i < *nkeys; i++)
	{
		int64		token;

		memcpy(&token, tokens.data + i * sizeof(int64), sizeof(int64));
		(*keys)[i] = Int64GetDatum(token);
	}
	return told;
}

static Datum
KeysOfValue(FunctionCallInfo fcinfo, int parts)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	Datum	   *keys;

	(void) Keys(cell, parts, PG_GET_COLLATION(), &keys, (int32 *) PG_GETARG_POINTER(1));
	PG_FREE_IF_COPY(cell, 0);
	PG_RETURN_POINTER(keys);
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
	Datum	   *keys;

	(void) Keys(PG_GETARG_CELL(0), PGSEAL_WORDS, PG_GET_COLLATION(), &keys, (int32 *) PG_GETARG_POINTER(1));
	PG_RETURN_POINTER(keys);
}

/*
 * A pattern without a run of three characters may match any text. So may one whose trigrams the session may not have: it matches the
 * texts one by one then, as without the index.
 */
PG_FUNCTION_INFO_V1(encdb_trigrams_of_pattern);
Datum
encdb_trigrams_of_pattern(PG_FUNCTION_ARGS)
{
	int32	   *nkeys = (int32 *) PG_GETARG_POINTER(1);
	int32	   *mode = (int32 *) PG_GETARG_POINTER(6);
	Datum	   *keys;

	if (!Keys(PG_GETARG_CELL(0), PGSEAL_PATTERN_TRIGRAMS, PG_GET_COLLATION(), &keys, nkeys) || *nkeys == 0)
		*mode = GIN_SEARCH_MODE_ALL;
	PG_RETURN_POINTER(keys);
}

/* Whether a text has all tokens that are looked for */
PG_FUNCTION_INFO_V1(encdb_tokens_consistent);
Datum
encdb_tokens_consistent(PG_FUNCTION_ARGS)
{
	const bool *check = (bool *) PG_GETARG_POINTER(0);
	StrategyNumber strategy = PG_GETARG_UINT16(1);
	int32		nkeys = PG_GETARG_INT32(3);
	bool	   *recheck = (bool *) PG_GETARG_POINTER(5);

	*recheck = strategy != STRATEGY_WORDS;
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
	StrategyNumber strategy = PG_GETARG_UINT16(1);
	int32		nkeys = PG_GETARG_INT32(3);
	GinTernaryValue found = strategy == STRATEGY_WORDS ? GIN_TRUE : GIN_MAYBE;

	for (int i = 0; i < nkeys; i++)
	{
		if (check[i] == GIN_FALSE)
			PG_RETURN_GIN_TERNARY_VALUE(GIN_FALSE);
		if (check[i] == GIN_MAYBE)
			found = GIN_MAYBE;
	}
	PG_RETURN_GIN_TERNARY_VALUE(found);
}
