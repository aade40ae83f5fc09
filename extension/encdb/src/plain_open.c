/*
 * plain_open.c
 *	  Literals and parameters of plain types beside encrypted values are refused: they are for the client to seal.
 *
 * 1. The operators of plain_operand.c are for values that the server has. Without them `c = 'x'::text`, and `c = $1` with a
 *	  parameter that a driver calls text, are errors before a value is bound. So they are with them: a statement is looked at
 *	  when it is parsed, with the subqueries and VALUES that its columns come from.
 * 2. What PL/pgSQL's variables and the arguments of SQL functions are is not known: to the parser they are parameters, too.
 *	  They are no client's, and are let pass. Literals are not.
 * 3. So are a client's sealed literals and parameters beside plain values. A client seals what it takes for the value of an
 *	  encrypted column: a column that has become plain is an error, and never a comparison.
 * 4. A statement that was prepared before the library came is parsed again: its first parsing was not looked at.
 * 5. An interval, a number of days that a date is moved by, a time zone, and the field of date_trunc and extract are plain
 *	  wherever they are.
 */
#include "encdb.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

static post_parse_analyze_hook_type next_analyze = NULL;

/* The only argument of a call that a value is made of, if the others say what is made of it; NULL: all are such */
static Node *
MadeOf(Oid function, List *arguments, CoercionForm form)
{
	/* Behind the value of a cast are the length or the scale of its type */
	if (form == COERCE_EXPLICIT_CAST || form == COERCE_IMPLICIT_CAST)
		return linitial(arguments);
	switch (function)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
			return lsecond(arguments);
		case F_DATE_PLI:
		case F_DATE_MII:
			return linitial(arguments);
		default:
			return NULL;
	}
}

/* A query that is looked at, within the one around it */
typedef struct Scope
{
	const Query *query;			/* NULL of an expression that is in none */
	const struct Scope *outer;
	ParseState *pstate;			/* of the statement; NULL of an expression */
	bool		parameters;		/* are a client's */
	const SubLink *link;		/* whose test is looked at */
	Node	   *tested;			/* by the CASE that is looked at: its conditions have a CaseTestExpr in its place */
} Scope;

static bool OpensColumn(const Query *query, int column, const Scope *outer);
static bool IsOpen(Node *node, void *context);

/* Whether any of these, or one element of each list, is open; column 0: all */
static bool
OpensRows(List *lists, int column, Scope *scope)
{
	ListCell   *cell;

	foreach(cell, lists)
		if (IsOpen(column > 0 ? list_nth(lfirst(cell), column - 1) : lfirst(cell), scope))
			return true;
	return false;
}

static bool
OpensCommonTable(const RangeTblEntry *table, int column, const Scope *scope)
{
	ListCell   *cell;

	for (Index level = table->ctelevelsup; level > 0 && scope; level--)
		scope = scope->outer;
	if (scope == NULL || scope->query == NULL || table->self_reference)
		return false;
	foreach(cell, scope->query->cteList)
	{
		CommonTableExpr *common = lfirst(cell);

		if (strcmp(common->ctename, table->ctename) == 0 && IsA(common->ctequery, Query))
			return OpensColumn((Query *) common->ctequery, column, scope);
	}
	return false;
}

/* Whether a column of a FROM list is made of what is open. What a table has is the server's */
static bool
OpensVariable(const Var *variable, const Scope *scope)
{
	int			column = variable->varattno;
	RangeTblEntry *table;
	Scope		here;

	for (Index level = variable->varlevelsup; level > 0 && scope; level--)
		scope = scope->outer;
	if (scope == NULL || scope->query == NULL || IS_SPECIAL_VARNO(variable->varno) || column < 0)
		return false;
	here = *scope;
	table = rt_fetch(variable->varno, scope->query->rtable);
	switch (table->rtekind)
	{
		case RTE_SUBQUERY:
			return OpensColumn(table->subquery, column, scope);
		case RTE_CTE:
			return OpensCommonTable(table, column, scope);
		case RTE_VALUES:
			return OpensRows(table->values_lists, column, &here);
		case RTE_FUNCTION:
			return expression_tree_walker((Node *) table->functions, IsOpen, &here);
		case RTE_TABLEFUNC:
			return IsOpen((Node *) table->tablefunc, &here);
		case RTE_JOIN:
			return OpensRows(list_make1(table->joinaliasvars), column, &here);
#if PG_VERSION_NUM >= 180000
		case RTE_GROUP:
			return OpensRows(list_make1(table->groupexprs), column, &here);
#endif
		default:
			return false;
	}
}

/* Whether a result of a query is made of what is open; column 0: any is */
static bool
OpensColumn(const Query *query, int column, const Scope *outer)
{
	Scope		scope = {query, outer, outer->pstate, outer->parameters};
	List	   *results = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
	ListCell   *cell;

	foreach(cell, results)
	{
		TargetEntry *target = lfirst(cell);

		if ((column == 0 || target->resno == column) && IsOpen((Node *) target->expr, &scope))
			return true;
	}
	if (query->setOperations)
		foreach(cell, query->rtable)
		{
			RangeTblEntry *arm = lfirst(cell);

			if (arm->rtekind == RTE_SUBQUERY && OpensColumn(arm->subquery, column, &scope))
				return true;
		}
	return false;
}

static bool
OpensParameter(const Param *param, const Scope *scope)
{
	switch (param->paramkind)
	{
		case PARAM_EXTERN:
			return scope->parameters && param->paramtype != INTERVALOID;
		case PARAM_SUBLINK:
			return scope->link && OpensColumn((Query *) scope->link->subselect, param->paramid, scope);
		default:
			return false;
	}
}

/* Whether an expression has placeholders of its own: of the value that a CASE tests, or of an array's element */
static bool
HasPlaceholder(Node *node)
{
	return IsA(node, ArrayCoerceExpr) || (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg);
}

/* Whether a literal, or a client's parameter, is in what a value is made of */
static bool
IsOpen(Node *node, void *context)
{
	const Scope *scope = context;
	Node	   *made_of = NULL;

	if (node == NULL)
		return false;
	check_stack_depth();
	if (IsA(node, Const))
		return !((Const *) node)->constisnull && ((Const *) node)->consttype != INTERVALOID;
	if (IsA(node, Param))
		return OpensParameter((Param *) node, scope);
	if (IsA(node, CaseTestExpr))
	{
		Scope		outer = *scope;

		outer.tested = NULL;
		return scope->tested && IsOpen(scope->tested, &outer);
	}
	/* An element is of the array, whichever it is */
	if (IsA(node, SubscriptingRef))
		return IsOpen((Node *) ((SubscriptingRef *) node)->refexpr, context);
	if (HasPlaceholder(node) && scope->tested)
	{
		/* The placeholders within are its own, of what is walked anyway */
		Scope		own = *scope;

		own.tested = NULL;
		return IsOpen(node, &own);
	}
	if (IsA(node, Var))
		return OpensVariable((Var *) node, scope);
	/* What a subquery gives, and not what it is found by */
	if (IsA(node, Query))
		return OpensColumn((Query *) node, 0, scope);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;

		made_of = MadeOf(call->funcid, call->args, call->funcformat);
	}
	else if (IsA(node, OpExpr))
	{
		set_opfuncid((OpExpr *) node);
		made_of = MadeOf(((OpExpr *) node)->opfuncid, ((OpExpr *) node)->args, COERCE_EXPLICIT_CALL);
	}
	if (made_of)
		return IsOpen(made_of, context);
	/* What computes an interval gives a plain one */
	if ((IsA(node, FuncExpr) || IsA(node, OpExpr)) && exprType(node) == INTERVALOID)
		return false;
	return expression_tree_walker(node, IsOpen, context);
}

/* Whether an encrypted value, or a list of some, is a literal or a client's parameter by itself */
static bool
IsSealed(Node *node, Scope *scope)
{
	node = strip_implicit_coercions(node);
	if (IsA(node, CaseTestExpr) && scope->tested)
	{
		Scope		outer = *scope;

		outer.tested = NULL;
		return IsSealed(scope->tested, &outer);
	}
	/* A cast to a limit of its type: enc_text(9), enc_text(9)[] */
	if (IsA(node, FuncExpr) && exprIsLengthCoercion(node, NULL))
		return IsSealed(linitial(((FuncExpr *) node)->args), scope);
	if (IsA(node, ArrayCoerceExpr))
		return IsSealed((Node *) ((ArrayCoerceExpr *) node)->arg, scope);
	if (IsA(node, CollateExpr))
		return IsSealed((Node *) ((CollateExpr *) node)->arg, scope);
	return (IsA(node, Const) || IsA(node, Param) || IsA(node, ArrayExpr)) && IsOpen(node, scope);
}

/* Raise what PostgreSQL says where there is no such operator */
static void
Refuse(Oid operator, List *arguments, const char *detail, const Scope *scope, int location)
{
	char	   *name = OidIsValid(operator) ? get_opname(operator) : NULL;

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
			 errmsg("operator does not exist: %s %s %s", format_type_be(exprType(linitial(arguments))), name ? name : "=",
					format_type_be(exprType(lsecond(arguments)))),
			 errdetail("%s", detail),
			 errhint("Give it the encrypted type, or none, and let the client seal it. Values that the server has, such as now() and "
					 "plain columns, are compared under the grant compare-plain."),
			 scope->pstate ? parser_errposition(scope->pstate, location) : 0));
}

static void
LookAt(Oid operator, Oid function, List *arguments, Scope *scope, int location)
{
	int			plain = -1;

	if (list_length(arguments) != 2 || encdb_comparison_of(function, &plain) == 0 || plain < 0)
		return;
	if (IsOpen(list_nth(arguments, plain), scope))
		Refuse(operator, arguments, "An encrypted value is not compared with a literal or a parameter of a plain type.",
			   scope, location);
	if (IsSealed(list_nth(arguments, 1 - plain), scope))
		Refuse(operator, arguments, "A plain value is not compared with an encrypted literal or parameter.", scope, location);
}

static bool
Look(Node *node, void *context)
{
	Scope	   *scope = context;

	if (node == NULL)
		return false;
	check_stack_depth();
	if (IsA(node, Query))
	{
		Scope		within = {(Query *) node, scope, scope->pstate, scope->parameters};

		return query_tree_walker((Query *) node, Look, &within, 0);
	}
	if (IsA(node, SubLink))
	{
		Scope		tested = *scope;

		tested.link = (SubLink *) node;
		return Look(((SubLink *) node)->testexpr, &tested) || Look(((SubLink *) node)->subselect, scope);
	}
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg)
	{
		Scope		tested = *scope;

		tested.tested = (Node *) ((CaseExpr *) node)->arg;
		return expression_tree_walker(node, Look, &tested);
	}
	if (IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, NullIfExpr))
	{
		OpExpr	   *call = (OpExpr *) node;

		set_opfuncid(call);
		LookAt(call->opno, call->opfuncid, call->args, scope, call->location);
	}
	else if (IsA(node, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *call = (ScalarArrayOpExpr *) node;

		set_sa_opfuncid(call);
		LookAt(call->opno, call->opfuncid, call->args, scope, call->location);
	}
	else if (IsA(node, FuncExpr))
		LookAt(InvalidOid, ((FuncExpr *) node)->funcid, ((FuncExpr *) node)->args, scope, exprLocation(node));
	return expression_tree_walker(node, Look, context);
}

/* Raise a literal beside an encrypted value in an expression that is in no query */
void
encdb_plain_refuse_literals(Node *node)
{
	Scope		scope = {NULL};

	(void) Look(node, &scope);
}

/* The query within a statement that is none itself */
static Node *
QueryWithin(Query *query)
{
	Node	   *statement = query->utilityStmt;

	if (statement == NULL)
		return (Node *) query;
	switch (nodeTag(statement))
	{
		case T_ExplainStmt:
			return ((ExplainStmt *) statement)->query;
		case T_CreateTableAsStmt:
			return ((CreateTableAsStmt *) statement)->query;
		case T_DeclareCursorStmt:
			return ((DeclareCursorStmt *) statement)->query;
		default:
			return NULL;
	}
}

static void
LookAtStatement(ParseState *pstate, Query *query, JUMBLE_PARAMETER)
{
	/* PL/pgSQL and SQL functions look for their own names */
	Scope		scope = {.pstate = pstate,.parameters = pstate->p_pre_columnref_hook == NULL && pstate->p_post_columnref_hook == NULL};

	(void) Look(QueryWithin(query), &scope);
	if (next_analyze)
		next_analyze(pstate, query, jumble);
}

void
encdb_plain_open_init(void)
{
	next_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = LookAtStatement;
	if (!process_shared_preload_libraries_in_progress)
		ResetPlanCache();
}
