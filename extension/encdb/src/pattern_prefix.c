/*
 * pattern_prefix.c
 *	  LIKE 'abc%' by a B-tree: the index finds the texts that begin as the pattern does, and LIKE matches what it finds.
 *
 * 1. Only the order of bytes has texts that begin alike together. So the index's column has the collation C, whatever LIKE's is.
 * 2. The conditions are column > encdb.prefix_low(pattern) and column < encdb.prefix_high(pattern): the ends of the range of those
 *	  texts, which have a form that no cell has (crates/encdb/evaluator-proto/src/plain.rs). No text is equal to an end, and ends have
 *	  an order among each other, beside texts and beside plain operands: whatever a B-tree concludes of its conditions is right.
 * 3. What a pattern begins with is not known here. The evaluator says when a query is planned whether it begins with a wildcard;
 *	  then an index would find all texts.
 */
#include "encdb.h"

#include "access/stratnum.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The third byte of each end */
#define FORM_LOW		0xf1
#define FORM_HIGH		0xf2

/* The function of an end */
static Oid
EndFunction(const char *name, Oid type)
{
	Oid			types[] = {type};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_namespace_oid("encdb", true)));
}

/*
 * Whether a pattern that is known when a query is planned begins with a character. Without a session nobody knows. The last answer is
 * kept: each index asks, and each partition has some.
 */
static bool
HasPrefix(Node *pattern)
{
	static uint64 epoch = 0;
	static uint8 last[256];
	static size_t last_len = 0;
	static int	has = 0;
	PgsealBytes cell;

	if (!IsA(pattern, Const) || ((Const *) pattern)->constisnull)
		return false;
	cell = CellBytes(DatumGetByteaPP(((Const *) pattern)->constvalue));
	if (!Attached())
		return false;
	if (epoch == encdb_epoch && last_len == cell.len && memcmp(last, cell.data, cell.len) == 0)
		return has;
	epoch = 0;
	if (!ENCDB_TRY(pgseal_has_prefix(cell, &has)))
		return false;
	if (cell.len <= sizeof(last))
	{
		memcpy(last, cell.data, cell.len);
		last_len = cell.len;
		epoch = encdb_epoch;
	}
	return has;
}

/* The condition that the column is behind one end, or before the other; NULL: there is none */
static Expr *
Condition(const SupportRequestIndexCondition *request, StrategyNumber strategy, const char *end)
{
	OpExpr	   *clause = (OpExpr *) request->node;
	Oid			type = request->index->opcintype[request->indexcol];
	Oid			operator = get_opfamily_member(request->opfamily, type, type, strategy);
	Oid			function = EndFunction(end, type);
	FuncExpr   *operand;

	/* Rights that somebody set are asked of a scan, too, and no user wrote these */
	if (!OidIsValid(operator) || !OidIsValid(function) || !encdb_has_default_rights(function) ||
		!encdb_has_default_rights(get_opcode(operator)))
		return NULL;
	operand = makeFuncExpr(function, type, list_make1(copyObject(lsecond(clause->args))), request->indexcollation,
						   request->indexcollation, COERCE_EXPLICIT_CALL);
	return make_opclause(operator, BOOLOID, false, copyObject(linitial(clause->args)), (Expr *) operand, InvalidOid,
						 request->indexcollation);
}

static List *
IndexCondition(SupportRequestIndexCondition *request)
{
	OpExpr	   *clause = (OpExpr *) request->node;
	Expr	   *low;
	Expr	   *high;

	if (!IsA(clause, OpExpr) || request->index->relam != BTREE_AM_OID || request->indexarg != 0)
		return NIL;
	if (!encdb_has_rules(request->indexcollation) || encdb_locale(request->indexcollation) != NULL)
		return NIL;
	/* LIKE refuses its own then */
	if (!encdb_has_rules(clause->inputcollid))
		return NIL;
	if (!HasPrefix(lsecond(clause->args)))
		return NIL;
	low = Condition(request, BTGreaterStrategyNumber, "prefix_low");
	high = Condition(request, BTLessStrategyNumber, "prefix_high");
	if (low == NULL || high == NULL)
		return NIL;
	request->lossy = true;
	return list_make2(low, high);
}

/* The support function of LIKE */
PG_FUNCTION_INFO_V1(encdb_pattern_support);
Datum
encdb_pattern_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	PG_RETURN_POINTER(IsA(request, SupportRequestIndexCondition) ? IndexCondition((SupportRequestIndexCondition *) request) : NIL);
}

/* An end for conditions of indexes alone: in a column it would be no cell */
static Datum
End(FunctionCallInfo fcinfo, uint8 form)
{
	Cell	   *pattern = PG_GETARG_CELL(0);
	Size		len = VARSIZE_ANY_EXHDR(pattern);
	Oid			result = get_fn_expr_rettype(fcinfo->flinfo);
	bytea	   *end;
	uint8	   *bytes;

	if (!OidIsValid(result) || result == get_func_rettype(fcinfo->flinfo->fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("encdb.prefix_low and encdb.prefix_high are what LIKE is made of for an index, and cannot be called")));
	end = palloc(VARHDRSZ + 3 + len);
	SET_VARSIZE(end, VARHDRSZ + 3 + len);
	bytes = (uint8 *) VARDATA(end);
	bytes[0] = 0;
	bytes[1] = TYPE_TEXT;
	bytes[2] = form;
	memcpy(bytes + 3, VARDATA_ANY(pattern), len);
	PG_RETURN_BYTEA_P(end);
}

PG_FUNCTION_INFO_V1(encdb_prefix_low);
Datum
encdb_prefix_low(PG_FUNCTION_ARGS)
{
	return End(fcinfo, FORM_LOW);
}

PG_FUNCTION_INFO_V1(encdb_prefix_high);
Datum
encdb_prefix_high(PG_FUNCTION_ARGS)
{
	return End(fcinfo, FORM_HIGH);
}

/* Whether an operand of a comparison is such an end */
bool
encdb_is_prefix_end(Node *operand)
{
	Const	   *constant = (Const *) operand;
	Cell	   *cell;

	/* A plain operand may be of any type */
	if (!IsA(operand, Const) || constant->constisnull || !encdb_is_of_cells(constant->consttype))
		return false;
	cell = DatumGetByteaPP(constant->constvalue);
	return VARSIZE_ANY_EXHDR(cell) > 3 && (CellForm(cell) == FORM_LOW || CellForm(cell) == FORM_HIGH);
}
