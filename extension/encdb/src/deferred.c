/*
 * deferred.c
 *	  Sums of what is computed: which plans have them, and the form in which a program comes to its sum (deferred.h).
 *
 * A deferred value is `0 | 255 | number of operands | length u16 | program | (length u32 | operand)...`, where a cell has its
 * type in place of the 255, which is no type.
 */
#include "deferred.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/syscache.h"

#define NO_TYPE				255
#define TYPE_AT				1
#define NOPERANDS_AT		2
#define LENGTH_AT			3
#define PROGRAM_AT			5

static planner_hook_type next_planner = NULL;

bool
encdb_is_deferred(PgsealBytes value)
{
	return value.len >= PROGRAM_AT && value.data[TYPE_AT] == NO_TYPE;
}

Datum
encdb_deferred_datum(const Deferred *deferred)
{
	uint16		length = (uint16) deferred->program.len;
	uint8		head[PROGRAM_AT] = {0, NO_TYPE, (uint8) deferred->noperands};
	StringInfoData value;

	memcpy(head + LENGTH_AT, &length, sizeof(length));
	initStringInfo(&value);
	appendStringInfoSpaces(&value, VARHDRSZ);
	appendBinaryStringInfo(&value, (char *) head, sizeof(head));
	appendBinaryStringInfo(&value, (const char *) deferred->program.data, (int) deferred->program.len);
	for (int i = 0; i < deferred->noperands; i++)
	{
		uint32		len = (uint32) deferred->operands[i].len;

		appendBinaryStringInfo(&value, (char *) &len, sizeof(len));
		appendBinaryStringInfo(&value, (const char *) deferred->operands[i].data, (int) len);
	}
	SET_VARSIZE(value.data, value.len);
	return PointerGetDatum(value.data);
}

/* Takes so many bytes off a value */
static PgsealBytes
Take(PgsealBytes *rest, size_t len)
{
	PgsealBytes taken = {rest->data, len};

	if (rest->len < len)
		elog(ERROR, "a deferred value is cut short");
	rest->data += len;
	rest->len -= len;
	return taken;
}

void
encdb_deferred_read(PgsealBytes value, Deferred *deferred)
{
	PgsealBytes head = Take(&value, PROGRAM_AT);
	uint16		length;

	deferred->noperands = head.data[NOPERANDS_AT];
	if (deferred->noperands > MAX_DEFERRED_OPERANDS)
		elog(ERROR, "a deferred value has too many operands");
	memcpy(&length, head.data + LENGTH_AT, sizeof(length));
	deferred->program = Take(&value, length);
	for (int i = 0; i < deferred->noperands; i++)
	{
		uint32		len;

		memcpy(&len, Take(&value, sizeof(len)).data, sizeof(len));
		deferred->operands[i] = Take(&value, len);
	}
}

/* The branches of a CASE become deferred one by one; what else an argument is, as a whole or not at all */
static Node *
DeferArgument(Node *argument, List **functions, int *nprograms)
{
	Node	   *deferred;

	if (IsA(argument, CaseExpr))
	{
		CaseExpr   *whole = (CaseExpr *) argument;
		ListCell   *cell;

		foreach(cell, whole->args)
		{
			CaseWhen   *branch = lfirst_node(CaseWhen, cell);

			branch->result = (Expr *) DeferArgument((Node *) branch->result, functions, nprograms);
		}
		if (whole->defresult)
			whole->defresult = (Expr *) DeferArgument((Node *) whole->defresult, functions, nprograms);
		return argument;
	}
	deferred = *nprograms < MAX_DEFERRED_PROGRAMS ? encdb_expression_deferred(argument, functions) : NULL;
	*nprograms += deferred != NULL;
	return deferred ? deferred : argument;
}

/* Defers what the sums of an expression are made of */
static bool
DeferSums(Node *node, void *functions)
{
	Aggref	   *sum = (Aggref *) node;

	if (node == NULL)
		return false;
	if (!IsA(node, Aggref))
		return expression_tree_walker(node, DeferSums, functions);
	if (list_length(sum->args) == 1 && sum->aggdistinct == NIL && sum->aggorder == NIL && !DO_AGGSPLIT_COMBINE(sum->aggsplit) &&
		encdb_is_sum(sum->aggfnoid))
	{
		TargetEntry *argument = linitial_node(TargetEntry, sum->args);
		int			nprograms = 0;

		argument->expr = (Expr *) DeferArgument((Node *) argument->expr, functions, &nprograms);
	}
	return false;
}

static void DeferIn(Plan *plan, List **functions);

static void
DeferInAll(List *plans, List **functions)
{
	ListCell   *cell;

	foreach(cell, plans)
		DeferIn(lfirst(cell), functions);
}

static void
DeferIn(Plan *plan, List **functions)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	if (IsA(plan, Agg))
	{
		DeferSums((Node *) plan->targetlist, functions);
		DeferSums((Node *) plan->qual, functions);
	}
	else if (IsA(plan, Append))
		DeferInAll(((Append *) plan)->appendplans, functions);
	else if (IsA(plan, MergeAppend))
		DeferInAll(((MergeAppend *) plan)->mergeplans, functions);
	else if (IsA(plan, CustomScan))
		DeferInAll(((CustomScan *) plan)->custom_plans, functions);
	else if (IsA(plan, SubqueryScan))
		DeferIn(((SubqueryScan *) plan)->subplan, functions);
	DeferIn(plan->lefttree, functions);
	DeferIn(plan->righttree, functions);
}

/* A plan is made anew when one of the functions that its programs replace has other rights */
static void
DependOn(PlannedStmt *plan, const List *functions)
{
	ListCell   *cell;

	foreach(cell, functions)
	{
		PlanInvalItem *item = makeNode(PlanInvalItem);

		item->cacheId = PROCOID;
		item->hashValue = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(lfirst_oid(cell)));
		plan->invalItems = lappend(plan->invalItems, item);
	}
}

static PlannedStmt *
PlanDeferred(Query *query, const char *text, int options, PLANNER_PARAMETERS)
{
	planner_hook_type next = next_planner ? next_planner : standard_planner;
	PlannedStmt *plan = next(query, text, options, PLANNER_ARGUMENTS);
	List	   *functions = NIL;

	DeferIn(plan->planTree, &functions);
	DeferInAll(plan->subplans, &functions);
	DependOn(plan, functions);
	return plan;
}

void
encdb_deferred_init(void)
{
	next_planner = planner_hook;
	planner_hook = PlanDeferred;
}
