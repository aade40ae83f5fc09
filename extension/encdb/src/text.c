/*
 * text.c
 *	  Operators on encrypted text.
 */
#include "ahead.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/planmain.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

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
 * Whether LIKE and its like, or their opposites, have the wanted outcome. In ANALYZE it has: that takes a partial index for as large as its table,
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
	if (how == PGSEAL_ILIKE || how == PGSEAL_HAS_WORDS)
		locale = encdb_ctype(PG_GET_COLLATION());
	else if (how == PGSEAL_REGEX || how == PGSEAL_IREGEX || how == PGSEAL_SIMILAR)
		locale = encdb_regex_ctype(PG_GET_COLLATION(), how == PGSEAL_IREGEX);
	else
		/* Only to refuse what is neither C's nor libc's */
		(void) encdb_locale_of(CellBytes(text), PG_GET_COLLATION());
	if (!encdb_ahead_like(fcinfo->flinfo, text, pattern, how, locale, &matches))
		ENCDB_CALL(pgseal_like(CellBytes(text), CellBytes(pattern), how, locale, &matches));
	return (matches != 0) == wanted;
}

#define MATCHING(name, how, wanted) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { PG_RETURN_BOOL(EncdbTextLike(fcinfo, how, wanted)); }

MATCHING(like, PGSEAL_LIKE, true)
MATCHING(nlike, PGSEAL_LIKE, false)
MATCHING(ilike, PGSEAL_ILIKE, true)
MATCHING(nilike, PGSEAL_ILIKE, false)
MATCHING(starts_with, PGSEAL_STARTS_WITH, true)
MATCHING(regex, PGSEAL_REGEX, true)
MATCHING(nregex, PGSEAL_REGEX, false)
MATCHING(iregex, PGSEAL_IREGEX, true)
MATCHING(niregex, PGSEAL_IREGEX, false)
MATCHING(similar, PGSEAL_SIMILAR, true)
MATCHING(nsimilar, PGSEAL_SIMILAR, false)
MATCHING(has_words, PGSEAL_HAS_WORDS, true)

/* encdb.enc_text_similar or encdb.enc_text_nsimilar */
static Oid
SimilarFunction(Oid type, bool wanted)
{
	Oid			types[] = {type, type};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(wanted ? "enc_text_similar" : "enc_text_nsimilar"),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_namespace_oid("encdb", true)));
}

/* Whether a node is the call that SIMILAR TO without ESCAPE makes of its pattern */
static bool
IsSimilarPattern(Node *node)
{
	FuncExpr   *call = (FuncExpr *) node;
	FmgrInfo	info;

	if (!IsA(node, FuncExpr) || list_length(call->args) != 1 || !encdb_has_default_rights(call->funcid))
		return false;
	fmgr_info(call->funcid, &info);
	return info.fn_addr == encdb_similar_to_escape;
}

static Node *
CompileSimilar(const SupportRequestSimplify *request)
{
	FuncExpr   *call = request->fcall;
	FuncExpr   *pattern = lsecond(call->args);
	FmgrInfo	info;
	Oid			function;

	if (!IsSimilarPattern((Node *) pattern) || !encdb_has_default_rights(call->funcid))
		return NULL;
	fmgr_info(call->funcid, &info);
	function = SimilarFunction(exprType(linitial(call->args)), info.fn_addr == encdb_regex);
	if (!OidIsValid(function) || !encdb_has_default_rights(function))
		return NULL;
	if (request->root)
	{
		record_plan_function_dependency(request->root, call->funcid);
		record_plan_function_dependency(request->root, pattern->funcid);
	}
	return (Node *) makeFuncExpr(function, BOOLOID, list_make2(linitial(call->args), linitial(pattern->args)), InvalidOid,
								 call->inputcollid, COERCE_EXPLICIT_CALL);
}

/*
 * The support function of ~ and !~. SIMILAR TO is a call of them with a pattern that was computed; it becomes one call with the
 * pattern as it is, which keeps the rights that a client sealed it with, and is the same for all rows.
 */
PG_FUNCTION_INFO_V1(encdb_compile_similar);
Datum
encdb_compile_similar(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	PG_RETURN_POINTER(IsA(request, SupportRequestSimplify) ? CompileSimilar((SupportRequestSimplify *) request) : NULL);
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
