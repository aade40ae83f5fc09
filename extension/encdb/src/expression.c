/*
 * expression.c
 *	  Operators, casts and functions one on another become one request: compiled when a query is planned.
 *
 * 1. encdb_compile is the support function of those that it knows. Of a call with such a call among its arguments it makes
 *	  one of encdb.computed, with a program and all operands; what is made on the way is neither sealed nor passed.
 * 2. Comparisons stay what they are, whatever is compared: indexes are found by them.
 * 3. encdb.computed is not strict, and the evaluator does no step on NULL: an error of another step is raised as ever.
 * 4. PostgreSQL asks who may execute encdb.computed, not who might what it was made of. So functions whose rights somebody
 *	  set stay out, a plan depends on those that went in, and no statement calls encdb.computed: a call that was made here
 *	  has the result's type, and not rnd_type, which is what its declaration says.
 * 5. Before 18 a grouping set finds the expressions that are NULL in it among those that it computes, so nothing is
 *	  compiled where it has others than columns.
 * 6. Where a call has no room for another program, that one is an operand, and a new one begins.
 * 7. Operands are computed before the program. So none that may raise an error comes behind a step that may: which of two
 *	  errors is raised stays as it was.
 */
#include "ahead.h"
#include "deferred.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/planmain.h"
#if PG_VERSION_NUM < 180000
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#endif
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define STEP_OPERAND	'$'
/* No step: the steps and operands of a program that was made before */
#define STEP_PROGRAM	'='

#define FOR_EACH_STEP(STEP) \
	FOR_EACH_BINARY(STEP) FOR_EACH_UNARY(STEP) STEP(concat, '|') STEP(length, '#') STEP(computed, STEP_PROGRAM)

#define DECLARE(name, sign) extern Datum encdb_##name(PG_FUNCTION_ARGS);
FOR_EACH_STEP(DECLARE)
FOR_EACH_CAST(DECLARE)

/* A program that is being made */
typedef struct Program
{
	Oid			support;		/* our own; what has another is an operand */
	bool		begins;			/* programs that were made before are operands */
	StringInfoData steps;
	List	   *operands;
	List	   *functions;		/* that went in */
	int			ncalls;			/* that went in */
	bool		reorders;		/* an operand that is computed came behind one */
	bool		stable;
} Program;

/* A call that goes into programs */
typedef struct Call
{
	Oid			function;
	List	   *arguments;
	char		sign;			/* 0: of a function of text */
	const TextFunction *text;
	StringInfoData step;		/* of such a function */
} Call;

static void TakeIn(Program *program, Node *node);

/* Finds out what a function does; false: nothing that goes into programs */
static bool
IsStep(const Program *program, Call *call)
{
	static const struct
	{
		PGFunction	function;
		char		sign;
	}			steps[] = {
#define ENTRY(name, sign) {encdb_##name, sign},
#define CAST_ENTRY(name, type) {encdb_##name, PGSEAL_CAST + type},
		FOR_EACH_STEP(ENTRY)
		FOR_EACH_CAST(CAST_ENTRY)
	};
	FmgrInfo	info;

	if (get_func_support(call->function) != program->support)
		return false;
	/* Not its own address if it has settings, or acts as its owner */
	fmgr_info(call->function, &info);
	call->text = encdb_text_function(info.fn_addr);
	for (size_t i = 0; i < lengthof(steps); i++)
		if (steps[i].function == info.fn_addr)
			call->sign = steps[i].sign;
	return call->text || call->sign;
}

/* Whether these rights, in whatever order, are those that a function has at first */
static bool
AreDefaultRights(Datum rights, Oid owner)
{
	Acl		   *set = DatumGetAclPCopy(rights);
	Acl		   *first = acldefault(OBJECT_FUNCTION, owner);

	aclitemsort(set);
	aclitemsort(first);
	return aclequal(set, first);
}

/* Whether everybody may execute it, as at first */
bool
encdb_has_default_rights(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		is_default;
	Datum		rights;

	if (!HeapTupleIsValid(tuple))
		return false;
	rights = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proacl, &is_default);
	if (!is_default)
		is_default = AreDefaultRights(rights, ((Form_pg_proc) GETSTRUCT(tuple))->proowner);
	ReleaseSysCache(tuple);
	return is_default;
}

/* What a call does that goes into programs; false: none does */
static bool
EncdbExpressionCall(const Program *program, Node *node, Call *call)
{
	Oid			collation = exprInputCollation(node);

	*call = (Call) {InvalidOid};
	if (IsA(node, FuncExpr))
	{
		call->function = ((FuncExpr *) node)->funcid;
		call->arguments = ((FuncExpr *) node)->args;
	}
	else if (IsA(node, OpExpr))
	{
		call->function = ((OpExpr *) node)->opfuncid;
		call->arguments = ((OpExpr *) node)->args;
	}
	else
		return false;
	if (!IsStep(program, call) || !encdb_has_default_rights(call->function))
		return false;
	if (call->sign == STEP_PROGRAM)
		return !program->begins && IsA(node, FuncExpr) &&
			((FuncExpr *) node)->funcresulttype != get_func_rettype(call->function);
	initStringInfo(&call->step);
	if (call->text)
		return encdb_text_step(call->text, call->arguments, collation, &call->step);
	appendStringInfoChar(&call->step, call->sign);
	return true;
}

/* A column, constant or parameter */
static bool
IsThere(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Var) || IsA(node, Const) || IsA(node, Param);
}

static void
TakeInOperand(Program *program, Node *node)
{
	program->operands = lappend(program->operands, node);
	program->reorders |= program->ncalls > 0 && !IsThere(node);
}

static void
TakeInCall(Program *program, const Call *call)
{
	int			narguments = list_length(call->arguments);
	int			first = call->text ? encdb_text_first(call->text) : 0;
	int			noperands = call->text ? encdb_text_operands(call->text, narguments) : narguments;
	ListCell   *cell;

	program->stable |= func_volatile(call->function) != PROVOLATILE_IMMUTABLE;
	if (call->sign == STEP_PROGRAM)
	{
		appendStringInfoString(&program->steps, TextDatumGetCString(((Const *) linitial(call->arguments))->constvalue));
		for_each_from(cell, call->arguments, 1)
			TakeInOperand(program, lfirst(cell));
		program->ncalls++;
		return;
	}
	program->functions = lappend_oid(program->functions, call->function);
	for (int i = 0; i < noperands; i++)
		TakeIn(program, list_nth(call->arguments, first + i));
	appendStringInfoString(&program->steps, call->step.data);
	program->ncalls++;
}

static void
TakeIn(Program *program, Node *node)
{
	Call		call;

	if (EncdbExpressionCall(program, node, &call))
		TakeInCall(program, &call);
	else
	{
		appendStringInfoChar(&program->steps, STEP_OPERAND);
		TakeInOperand(program, node);
	}
}

/* encdb.computed or encdb.computed_stable */
static Oid
EncdbExpressionComputed(const char *name)
{
	Oid			types[] = {TEXTOID, ANYOID};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_namespace_oid("encdb", true)));
}

/* Whether it is more than one call takes */
static bool
IsTooLarge(const Program *program)
{
	return list_length(program->operands) > PGSEAL_MOST_OPERANDS || program->steps.len > PGSEAL_MOST_PROGRAM;
}

/* The one call instead of many; NULL where there is but one, no room, or another order */
static Node *
EncdbExpressionReplacement(Program *program, const FuncExpr *call)
{
	Oid			function;
	Const	   *steps;

	if (program->ncalls < 2 || IsTooLarge(program) || program->reorders)
		return NULL;
	function = EncdbExpressionComputed(program->stable ? "computed_stable" : "computed");
	if (!OidIsValid(function) || !encdb_has_default_rights(function))
		return NULL;
	steps = makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1, CStringGetTextDatum(program->steps.data), false, false);
	return (Node *) makeFuncExpr(function, call->funcresulttype, lcons(steps, program->operands), call->funccollid,
								 call->inputcollid, COERCE_EXPLICIT_CALL);
}

/* The steps and the operands of a call that was compiled, or of one that stayed alone; false: it is none */
bool
encdb_expression_steps(Node *node, StringInfo steps, List **operands)
{
	Program		program = {InvalidOid};
	Call		call;

	if (!IsA(node, FuncExpr) && !IsA(node, OpExpr))
		return false;
	program.support = get_func_support(IsA(node, FuncExpr) ? ((FuncExpr *) node)->funcid : ((OpExpr *) node)->opfuncid);
	if (!OidIsValid(program.support) || !EncdbExpressionCall(&program, node, &call))
		return false;
	initStringInfo(&program.steps);
	TakeInCall(&program, &call);
	*steps = program.steps;
	*operands = program.operands;
	return !IsTooLarge(&program) && !program.reorders;
}

/* Whether these steps give NULL for NULL alone, and nothing but numbers */
static bool
AreArithmetic(const char *steps)
{
	return strspn(steps, "$+-*/%^p~@ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(steps);
}

/* The call with its program deferred, to replace a call that was compiled, or one that stayed alone; NULL: it cannot be */
Node *
encdb_expression_deferred(Node *argument, List **functions)
{
	Program		program = {InvalidOid};
	Call		call;
	Oid			function;
	StringInfoData steps;

	if (!IsA(argument, FuncExpr) && !IsA(argument, OpExpr))
		return NULL;
	program.support = get_func_support(IsA(argument, FuncExpr) ? ((FuncExpr *) argument)->funcid : ((OpExpr *) argument)->opfuncid);
	if (!OidIsValid(program.support) || !EncdbExpressionCall(&program, argument, &call))
		return NULL;
	initStringInfo(&program.steps);
	TakeInCall(&program, &call);
	function = EncdbExpressionComputed(program.stable ? "computed_stable" : "computed");
	if (!AreArithmetic(program.steps.data) || IsTooLarge(&program) || program.reorders || !OidIsValid(function) ||
		list_length(program.operands) > MAX_DEFERRED_OPERANDS || !encdb_has_default_rights(function))
		return NULL;
	*functions = list_concat(*functions, program.functions);
	initStringInfo(&steps);
	appendStringInfo(&steps, "%c%s", DEFERRED, program.steps.data);
	return (Node *) makeFuncExpr(function, exprType(argument),
								 lcons(makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1, CStringGetTextDatum(steps.data), false, false),
									   program.operands),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/* Whether a grouping set has others than columns; a query that is none, as of PL/pgSQL's casts, has no sets */
static bool
GroupsByExpressions(const PlannerInfo *root)
{
#if PG_VERSION_NUM < 180000
	Query	   *query = root ? root->parse : NULL;
	ListCell   *cell;

	if (!query || !query->groupingSets)
		return false;
	foreach(cell, query->groupClause)
	{
		Node	   *group = get_sortgroupclause_expr(lfirst(cell), query->targetList);

		/* What a join gives may be computed of both sides */
		if (!IsA(group, Var) || rt_fetch(((Var *) group)->varno, query->rtable)->rtekind == RTE_JOIN)
			return true;
	}
#endif
	return false;
}

static Node *
CompileCall(const SupportRequestSimplify *request, Program *program)
{
	Call		call;
	Node	   *replacement;
	ListCell   *cell;

	if (!EncdbExpressionCall(program, (Node *) request->fcall, &call) || call.sign == STEP_PROGRAM)
		return NULL;
	initStringInfo(&program->steps);
	TakeInCall(program, &call);
	replacement = EncdbExpressionReplacement(program, request->fcall);
	if (replacement && request->root)
		foreach(cell, program->functions)
			record_plan_function_dependency(request->root, lfirst_oid(cell));
	return replacement;
}

static Node *
EncdbExpressionCompile(const SupportRequestSimplify *request)
{
	Oid			support = get_func_support(request->fcall->funcid);
	Program		whole = {.support = support};
	Program		next = {.support = support,.begins = true};
	Node	   *replacement;

	if (GroupsByExpressions(request->root))
		return NULL;
	replacement = CompileCall(request, &whole);
	return !replacement && IsTooLarge(&whole) ? CompileCall(request, &next) : replacement;
}

PG_FUNCTION_INFO_V1(encdb_compile);
Datum
encdb_compile(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	PG_RETURN_POINTER(IsA(request, SupportRequestSimplify) ? EncdbExpressionCompile((SupportRequestSimplify *) request) : NULL);
}

/* Raise a statement's own call, which may bring anything as program and operands */
static void
CheckCaller(FmgrInfo *call)
{
	Oid			type = get_fn_expr_rettype(call);

	if (!OidIsValid(type) || type == get_func_rettype(call->fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("encdb.computed is what operators are compiled to, and cannot be called")));
	call->fn_extra = call;
}

/* Gives a program to its sum, with its operands; whatever of them is NULL, so is the result */
static Datum
Defer(FunctionCallInfo fcinfo, PgsealBytes program)
{
	Deferred	deferred = {.program = {program.data + 1, program.len - 1},.noperands = PG_NARGS() - 1};

	for (int i = 1; i < PG_NARGS(); i++)
	{
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
		deferred.operands[i - 1] = CellBytes(PG_GETARG_CELL(i));
	}
	return encdb_deferred_datum(&deferred);
}

PG_FUNCTION_INFO_V1(encdb_computed);
Datum
encdb_computed(PG_FUNCTION_ARGS)
{
	PgsealBytes operands[PGSEAL_MOST_OPERANDS];
	PgsealBytes result;
	Cell	   *program;
	Cell	   *last = NULL;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	if (fcinfo->flinfo->fn_extra == NULL)
		CheckCaller(fcinfo->flinfo);
	program = PG_GETARG_CELL(0);
	if (*VARDATA_ANY(program) == DEFERRED)
		return Defer(fcinfo, CellBytes(program));
	for (int i = 1; i < PG_NARGS(); i++)
	{
		operands[i - 1] = (PgsealBytes) {NULL, 0};
		if (PG_ARGISNULL(i))
			continue;
		last = PG_GETARG_CELL(i);
		operands[i - 1] = CellBytes(last);
	}
	if (last == NULL)
		PG_RETURN_NULL();
	ENCDB_STAND_IN(last);
	if (encdb_ahead_computed(fcinfo, CellBytes(program), 1, PG_NARGS() - 1, &computed, &is_null_ahead))
	{
		if (is_null_ahead)
			PG_RETURN_NULL();
		return computed;
	}
	ENCDB_CALL(pgseal_compute(CellBytes(program), operands, PG_NARGS() - 1, &result, &is_null));
	if (is_null)
		PG_RETURN_NULL();
	return encdb_cell_datum(result);
}
