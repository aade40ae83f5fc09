/*
 * plain.c
 *	  What would take a cell for its digits: casts from encrypted types to plain ones, and
 *	  functions that write any value as text. They are refused when a query is planned.
 *
 * 1. PostgreSQL casts every type to the string types, by its output and their input. So there are casts
 *	  of our own, which raise (sql/refused); functions of JSON and PL/pgSQL's assignments find them, too.
 * 2. What calls output functions itself asks for no cast: such calls are looked for in queries.
 *	  This needs the library to be loaded before the query is planned.
 * 3. What is sent to a client, dumped or copied is no such call.
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
EncdbPlainRefuse(const char *to)
{
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
	EncdbPlainRefuse(format_type_be(get_func_rettype(fcinfo->flinfo->fn_oid)));
	PG_RETURN_NULL();
}

/* A cast's support function: no row is needed for the refusal */
PG_FUNCTION_INFO_V1(encdb_refuse_plan);
Datum
encdb_refuse_plan(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestSimplify))
		EncdbPlainRefuse(format_type_be(((SupportRequestSimplify *) request)->fcall->funcresulttype));
	PG_RETURN_POINTER(NULL);
}

/* Whether values of this type are cells, or arrays of them */
static bool
IsOfCells(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);
	Oid			output;
	bool		varlena;
	FmgrInfo	info;

	if (OidIsValid(element))
		base = getBaseType(element);
	/* PostgreSQL's own, and pseudotypes */
	if (base < FirstNormalObjectId || get_typtype(base) != TYPTYPE_BASE)
		return false;
	getTypeOutputInfo(base, &output, &varlena);
	fmgr_info(output, &info);
	return info.fn_addr == encdb_out;
}

static void
RefuseCells(List *arguments, const char *to)
{
	ListCell   *cell;

	foreach(cell, arguments)
		if (IsOfCells(exprType(lfirst(cell))))
			EncdbPlainRefuse(to);
}

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
			return true;
		default:
			return false;
	}
}

/* Raise what writes cells as text, in a query and all below it */
static bool
EncdbPlainLook(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, EncdbPlainLook, NULL, 0);
	if (IsA(node, FuncExpr) && WritesAnything(((FuncExpr *) node)->funcid))
		RefuseCells(((FuncExpr *) node)->args, "text");
	else if (IsA(node, XmlExpr))
	{
		RefuseCells(((XmlExpr *) node)->args, "xml");
		RefuseCells(((XmlExpr *) node)->named_args, "xml");
	}
	else if (IsA(node, CoerceViaIO))
		RefuseCells(list_make1(((CoerceViaIO *) node)->arg), format_type_be(((CoerceViaIO *) node)->resulttype));
	return expression_tree_walker(node, EncdbPlainLook, NULL);
}

static PlannedStmt *
PlanQuery(Query *query, const char *text, int options, ParamListInfo parameters)
{
	EncdbPlainLook((Node *) query, NULL);
	if (next_planner)
		return next_planner(query, text, options, parameters);
	return standard_planner(query, text, options, parameters);
}

void
encdb_plain_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanQuery;
}
