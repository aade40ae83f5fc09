/*
 * plain_operand.c
 *	  Plain values that the server has, beside encrypted ones: now(), a plain column.
 *
 * 1. A comparison of a cell with a plain value gives the evaluator the value in a cell's place, in a form that no cell has
 *	  (crates/encdb/evaluator-proto/src/plain.rs). So it goes wherever a comparison of two cells goes: into requests about many
 *	  rows, and into searches in indexes. What takes cells alone refuses it, and so do the types' input functions.
 * 2. The operators are in no operator family: a B-tree serves them by a condition that is made of them when a query is planned,
 *	  and nothing is inferred from them about two plain values, or two encrypted ones.
 */
#include "ahead.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The third byte of a plain operand */
#define FORM_PLAIN		0xf0

/* A plain type, the encrypted type of its operands, and the function that sends it */
struct PlainType
{
	Oid			type;
	uint8		byte;
	const char *encrypted;
	PGFunction	send;
	bool		is_stored_long;	/* as a varlena, which may be outside of its row */
};

/* In the place of int2's, which is sent as int4 */
static Datum
SendInt2(PG_FUNCTION_ARGS)
{
	return DirectFunctionCall1(int4send, Int32GetDatum(PG_GETARG_INT16(0)));
}

/* In the place of text's, which is sent in UTF-8 */
static Datum
SendText(PG_FUNCTION_ARGS)
{
	return encdb_cell_datum(encdb_utf8(PG_GETARG_TEXT_PP(0)));
}

/* What is compared as a plain value; NULL: nothing */
const PlainType *
encdb_plain_type(Oid type)
{
	static const PlainType types[] = {
		{INT2OID, 0x09, "enc_int4", SendInt2}, {INT4OID, 0x09, "enc_int4", int4send},
		{INT8OID, 0x0a, "enc_int8", int8send}, {FLOAT4OID, 0x0b, "enc_float4", float4send},
		{FLOAT8OID, 0x0c, "enc_float8", float8send}, {NUMERICOID, 0x0d, "enc_decimal", numeric_send, true},
		{BOOLOID, 0x0e, "enc_bool", boolsend}, {DATEOID, 0x0f, "enc_date", date_send},
		{TIMESTAMPOID, 0x10, "enc_timestamp", timestamp_send},
		{TIMESTAMPTZOID, 0x11, "enc_timestamptz", timestamptz_send}, {UUIDOID, 0x12, "enc_uuid", uuid_send},
		{BYTEAOID, 0x13, "enc_bytea", byteasend, true}, {INTERVALOID, 0x14, "enc_interval", interval_send},
		{TEXTOID, TYPE_TEXT, "enc_text", SendText, true},
		{VARCHAROID, TYPE_TEXT, "enc_text", SendText, true},
	};

	for (size_t i = 0; i < lengthof(types); i++)
		if (types[i].type == type)
			return &types[i];
	return NULL;
}

/* Whether a value has a form as an operand: a text that has none is refused when it is compared */
static bool
HasForm(const PlainType *plain, Datum value)
{
	PgsealBytes utf8;

	return plain->byte != TYPE_TEXT || encdb_to_utf8(DatumGetTextPP(value), &utf8);
}

/* A plain value in the place of a cell */
Cell *
encdb_plain_operand(const PlainType *plain, Datum value)
{
	bytea	   *sent = DatumGetByteaPP(DirectFunctionCall1(plain->send, value));
	Size		len = VARSIZE_ANY_EXHDR(sent);
	Cell	   *operand = palloc(VARHDRSZ + 3 + len);
	uint8	   *bytes = (uint8 *) VARDATA(operand);

	SET_VARSIZE(operand, VARHDRSZ + 3 + len);
	bytes[0] = 0;
	bytes[1] = plain->byte;
	bytes[2] = FORM_PLAIN;
	memcpy(bytes + 3, VARDATA_ANY(sent), len);
	pfree(sent);
	return operand;
}

/* A plain value of a row as an operand; false: it is stored outside of it, or has no form and is refused when the row is reached */
bool
encdb_plain_take(const PlainType *plain, Datum value, MemoryContext context, PgsealBytes *operand)
{
	MemoryContext old;
	bool		has_form;

	if (plain->is_stored_long &&
		(VARATT_IS_EXTERNAL(DatumGetPointer(value)) || VARATT_IS_COMPRESSED(DatumGetPointer(value))))
		return false;
	old = MemoryContextSwitchTo(context);
	has_form = HasForm(plain, value);
	if (has_form)
		*operand = CellBytes(encdb_plain_operand(plain, value));
	MemoryContextSwitchTo(old);
	return has_form;
}

/* Whether a call gives the server's clock, or another form of it */
static bool
IsOfClock(Oid function)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
		case F_DATE_TIMESTAMP:
		case F_TIMESTAMP_TIMESTAMPTZ:
		case F_TIMESTAMP_DATE:
		case F_TIMESTAMPTZ_DATE:
		case F_TIMESTAMPTZ_TIMESTAMP:
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_TIMESTAMP_PL_INTERVAL:
		case F_TIMESTAMP_MI_INTERVAL:
		case F_DATE_PL_INTERVAL:
		case F_DATE_MI_INTERVAL:
		case F_TEXT_NAME:
			return true;
		default:
			return false;
	}
}

/* Whether a plain value is the same for all rows, and raises nothing that an earlier filter might spare: the server's clock */
bool
encdb_plain_is_steady(Node *node)
{
	List	   *arguments;
	ListCell   *cell;

	if (IsA(node, Const) || IsA(node, Param) || IsA(node, SQLValueFunction))
		return true;
	if (IsA(node, RelabelType))
		return encdb_plain_is_steady((Node *) ((RelabelType *) node)->arg);
	if (IsA(node, FuncExpr) && IsOfClock(((FuncExpr *) node)->funcid))
		arguments = ((FuncExpr *) node)->args;
	else if (IsA(node, OpExpr) && IsOfClock(((OpExpr *) node)->opfuncid))
		arguments = ((OpExpr *) node)->args;
	else
		return false;
	foreach(cell, arguments)
		if (!encdb_plain_is_steady(lfirst(cell)))
			return false;
	return true;
}

/* The type of a function's plain argument, which is kept from row to row */
static const PlainType *
TypeOfArgument(FmgrInfo *call, int argument)
{
	if (call->fn_extra == NULL)
	{
		Oid		   *types;
		int			ntypes;

		(void) get_func_signature(call->fn_oid, &types, &ntypes);
		call->fn_extra = argument < ntypes ? unconstify(PlainType *, encdb_plain_type(types[argument])) : NULL;
		if (call->fn_extra == NULL)
			elog(ERROR, "function %u has no plain argument", call->fn_oid);
	}
	return call->fn_extra;
}

static int
ComparePlain(FunctionCallInfo fcinfo, int plain)
{
	Cell	   *operand = encdb_plain_operand(TypeOfArgument(fcinfo->flinfo, plain), PG_GETARG_DATUM(plain));
	Cell	   *cell = PG_GETARG_CELL(1 - plain);
	int			order = encdb_compare_call(fcinfo->flinfo, plain == 0 ? operand : cell, plain == 0 ? cell : operand,
										   PG_GET_COLLATION());

	pfree(operand);
	PG_FREE_IF_COPY(cell, 1 - plain);
	return order;
}

/* Operators with the plain value on the right, and on the left */
#define COMPARISON(name, operator) \
	PG_FUNCTION_INFO_V1(encdb_##name##_plain); \
	Datum encdb_##name##_plain(PG_FUNCTION_ARGS) { PG_RETURN_BOOL(ComparePlain(fcinfo, 1) operator 0); } \
	PG_FUNCTION_INFO_V1(encdb_plain_##name); \
	Datum encdb_plain_##name(PG_FUNCTION_ARGS) { PG_RETURN_BOOL(ComparePlain(fcinfo, 0) operator 0); }

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

/* The sign that a filter has for a comparison; 0: the function is none. `plain` is the place of its plain value, or -1 */
char
encdb_comparison_sign(PGFunction function, int *plain)
{
	static const struct
	{
		PGFunction	functions[3];
		char		sign;
	}			comparisons[] = {
#define ENTRY(name, sign) {{encdb_plain_##name, encdb_##name##_plain, encdb_##name}, sign}
		ENTRY(eq, '='), ENTRY(ne, '!'), ENTRY(lt, '<'), ENTRY(le, 'l'), ENTRY(gt, '>'), ENTRY(ge, 'g'),
	};

	for (size_t i = 0; i < lengthof(comparisons); i++)
		for (int place = 0; place < 3; place++)
			if (comparisons[i].functions[place] == function)
			{
				*plain = place < 2 ? place : -1;
				return comparisons[i].sign;
			}
	return 0;
}

/* The same of a function by its number */
char
encdb_comparison_of(Oid function, int *plain)
{
	FmgrInfo	info;

	/* PostgreSQL's own */
	if (function < FirstNormalObjectId)
		return 0;
	/* Not its own address if it has settings, or acts as its owner */
	fmgr_info(function, &info);
	return encdb_comparison_sign(info.fn_addr, plain);
}

/* The strategy of a B-tree that a comparison is, with its sides exchanged or not */
static int
StrategyOf(char sign, bool exchanged)
{
	switch (sign)
	{
		case '=':
			return BTEqualStrategyNumber;
		case '<':
			return exchanged ? BTGreaterStrategyNumber : BTLessStrategyNumber;
		case 'l':
			return exchanged ? BTGreaterEqualStrategyNumber : BTLessEqualStrategyNumber;
		case '>':
			return exchanged ? BTLessStrategyNumber : BTGreaterStrategyNumber;
		case 'g':
			return exchanged ? BTLessEqualStrategyNumber : BTGreaterEqualStrategyNumber;
		default:
			return InvalidStrategy;
	}
}

/* encdb.plain_operand() */
static Oid
OperandFunction(void)
{
	Oid			types[] = {ANYOID};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("plain_operand"),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_namespace_oid("encdb", true)));
}

/* The encrypted type of this name beside another one */
static Oid
TypeBeside(Oid other, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(other));
	Oid			namespace;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	namespace = ((Form_pg_type) GETSTRUCT(tuple))->typnamespace;
	ReleaseSysCache(tuple);
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name), ObjectIdGetDatum(namespace));
}

/*
 * The condition by which a B-tree serves a comparison of its column with a plain value: one of the column with an encrypted
 * value that is none, but a plain operand. NULL: there is none.
 */
static List *
IndexCondition(SupportRequestIndexCondition *request)
{
	OpExpr	   *clause = (OpExpr *) request->node;
	Oid			column_type = request->index->opcintype[request->indexcol];
	int			plain_side;
	char		sign;
	Node	   *column;
	Node	   *value;
	const PlainType *plain;
	Oid			operand_type;
	Oid			operator;
	Oid			function;

	if (!IsA(clause, OpExpr) || request->index->relam != BTREE_AM_OID)
		return NULL;
	sign = encdb_comparison_of(clause->opfuncid, &plain_side);
	if (sign == 0 || plain_side != 1 - request->indexarg)
		return NULL;
	if (OidIsValid(request->indexcollation) && request->indexcollation != clause->inputcollid)
		return NULL;
	column = list_nth(clause->args, request->indexarg);
	value = list_nth(clause->args, plain_side);
	plain = encdb_plain_type(getBaseType(exprType(value)));
	operand_type = plain ? TypeBeside(column_type, plain->encrypted) : InvalidOid;
	function = OperandFunction();
	if (!OidIsValid(operand_type) || !OidIsValid(function))
		return NULL;
	operator = get_opfamily_member(request->opfamily, column_type, operand_type, StrategyOf(sign, plain_side == 0));
	if (!OidIsValid(operator))
		return NULL;
	value = (Node *) makeFuncExpr(function, operand_type, list_make1(value), clause->inputcollid, InvalidOid,
								  COERCE_EXPLICIT_CALL);
	request->lossy = false;
	return list_make1(make_opclause(operator, BOOLOID, false, (Expr *) column, (Expr *) value, InvalidOid,
									clause->inputcollid));
}

/* The support function of comparisons with plain values */
PG_FUNCTION_INFO_V1(encdb_plain_support);
Datum
encdb_plain_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (!IsA(request, SupportRequestIndexCondition))
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(IndexCondition((SupportRequestIndexCondition *) request));
}

/* A plain operand, for conditions of indexes alone: in a column it would be a value in clear */
PG_FUNCTION_INFO_V1(encdb_plain_operand_of);
Datum
encdb_plain_operand_of(PG_FUNCTION_ARGS)
{
	Oid			result = get_fn_expr_rettype(fcinfo->flinfo);
	const PlainType *plain = fcinfo->flinfo->fn_extra;

	if (plain == NULL)
	{
		if (!OidIsValid(result) || result == get_func_rettype(fcinfo->flinfo->fn_oid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("encdb.plain_operand is what comparisons with plain values are made of, and cannot be called")));
		plain = encdb_plain_type(getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 0)));
		if (plain == NULL)
			elog(ERROR, "encdb.plain_operand has no plain argument");
		fcinfo->flinfo->fn_extra = unconstify(PlainType *, plain);
	}
	PG_RETURN_POINTER(encdb_plain_operand(plain, PG_GETARG_DATUM(0)));
}
