/*
 * plain.c
 *	  What would take a cell for its digits: casts from encrypted types to plain ones, and
 *	  functions that write any value as text. They are refused when a query is planned.
 *
 * 1. PostgreSQL casts every type to the string types, by its output and their input. So there are casts
 *	  of our own, which raise (sql/refused); functions of JSON and PL/pgSQL's assignments find them, too.
 * 2. What calls output functions itself asks for no cast: such calls are looked for in queries.
 *	  This needs the library to be loaded before the query is planned.
 * 3. Some expressions are in no query, and are looked at by stored.c.
 * 4. What is sent to a client, dumped or copied is no such call.
 */
#include "encdb.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

static planner_hook_type next_planner = NULL;

static void
EncdbPlainRefuse(Oid type)
{
	char	   *to = format_type_be(type);

	ereport(ERROR,
			(errcode(MAKE_SQLSTATE('P', 'E', '0', '2', '8')),
			 errmsg("a value of an encrypted type is not converted to %s", to),
			 errdetail("Its text is the digits of a cell, which differ from those of an equal value."),
			 errhint("Give the other side as a parameter that the client seals, use the encrypted types' own functions and casts, "
					 "or open the value with encdb.decrypt().")));
}

/* A cast's function, if nobody planned the call */
PG_FUNCTION_INFO_V1(encdb_refuse_cast);
Datum
encdb_refuse_cast(PG_FUNCTION_ARGS)
{
	EncdbPlainRefuse(get_func_rettype(fcinfo->flinfo->fn_oid));
	PG_RETURN_NULL();
}

/* A cast's support function: no row is needed for the refusal */
PG_FUNCTION_INFO_V1(encdb_refuse_plan);
Datum
encdb_refuse_plan(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestSimplify))
		EncdbPlainRefuse(((SupportRequestSimplify *) request)->fcall->funcresulttype);
	PG_RETURN_POINTER(NULL);
}

/* Whether values of this type are cells, or arrays of them */
bool
encdb_is_of_cells(Oid type)
{
	Oid			base;
	Oid			element;
	Oid			output;
	bool		varlena;
	FmgrInfo	info;

	/* PostgreSQL's own */
	if (type < FirstNormalObjectId)
		return false;
	base = getBaseType(type);
	element = get_element_type(base);
	if (OidIsValid(element))
		base = getBaseType(element);
	/* Domains over PostgreSQL's own, and pseudotypes */
	if (base < FirstNormalObjectId || get_typtype(base) != TYPTYPE_BASE)
		return false;
	getTypeOutputInfo(base, &output, &varlena);
	fmgr_info(output, &info);
	return info.fn_addr == encdb_out;
}

static void
RefuseCells(List *arguments, Oid to)
{
	ListCell   *cell;

	foreach(cell, arguments)
		if (encdb_is_of_cells(exprType(lfirst(cell))))
			EncdbPlainRefuse(to);
}

/* Whether a function writes any value as text or JSON. Some find the casts that raise, but only when they are executed */
static bool
WritesAnything(Oid function)
{
	switch (function)
	{
		case F_CONCAT:
		case F_CONCAT_WS:
		case F_FORMAT_TEXT_ANY:
		case F_ARRAY_TO_STRING_ANYARRAY_TEXT:
		case F_ARRAY_TO_STRING_ANYARRAY_TEXT_TEXT:
		case F_ANYTEXTCAT:
		case F_TEXTANYCAT:
		case F_QUOTE_LITERAL_ANYELEMENT:
		case F_QUOTE_NULLABLE_ANYELEMENT:
		case F_TO_JSON:
		case F_TO_JSONB:
		case F_ARRAY_TO_JSON_ANYARRAY:
		case F_ARRAY_TO_JSON_ANYARRAY_BOOL:
		case F_JSON_BUILD_ARRAY_ANY:
		case F_JSON_BUILD_OBJECT_ANY:
		case F_JSONB_BUILD_ARRAY_ANY:
		case F_JSONB_BUILD_OBJECT_ANY:
			return true;
		default:
			return false;
	}
}

/* Whether a function is one of the casts that raise */
static bool
IsRefusedCast(Oid function)
{
	Oid			support = function < FirstNormalObjectId ? InvalidOid : get_func_support(function);
	FmgrInfo	info;

	if (!OidIsValid(support))
		return false;
	fmgr_info(support, &info);
	return info.fn_addr == encdb_refuse_plan;
}

/* A query's casts raise in the planner */
static void
EncdbPlainLookAtCall(Oid function, List *arguments, Oid to, bool planned)
{
	if (WritesAnything(function) || (!planned && IsRefusedCast(function)))
		RefuseCells(arguments, to);
}

/* Raise what writes cells as text, in a query or an expression and all below it */
static bool
EncdbPlainLook(Node *node, void *planned)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, EncdbPlainLook, planned, 0);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;

		EncdbPlainLookAtCall(call->funcid, call->args, call->funcresulttype, *(bool *) planned);
	}
	else if (IsA(node, OpExpr))
	{
		OpExpr	   *call = (OpExpr *) node;

		set_opfuncid(call);
		EncdbPlainLookAtCall(call->opfuncid, call->args, call->opresulttype, true);
	}
	else if (IsA(node, XmlExpr))
	{
		RefuseCells(((XmlExpr *) node)->args, XMLOID);
		RefuseCells(((XmlExpr *) node)->named_args, XMLOID);
	}
#if PG_VERSION_NUM >= 160000
	else if (IsA(node, JsonConstructorExpr))
		RefuseCells(((JsonConstructorExpr *) node)->args, exprType(node));
#endif
	else if (IsA(node, CoerceViaIO))
		RefuseCells(list_make1(((CoerceViaIO *) node)->arg), ((CoerceViaIO *) node)->resulttype);
	return expression_tree_walker(node, EncdbPlainLook, planned);
}

/* Raise what writes cells as text in an expression that is in no query, its casts included */
void
encdb_plain_look(Node *expression)
{
	bool		planned = false;

	(void) EncdbPlainLook(expression, &planned);
	encdb_plain_refuse_literals(expression);
}

static PlannedStmt *
PlanQuery(Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	bool		planned = true;

	(void) EncdbPlainLook((Node *) query, &planned);
	if (next_planner)
		return next_planner(query, text, options, PLANNER_ARGUMENTS);
	return standard_planner(query, text, options, PLANNER_ARGUMENTS);
}

void
encdb_plain_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanQuery;
}
