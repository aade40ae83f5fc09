/*
 * ahead_filter.c
 *	  The filters of rows that were read ahead: one request says of each row how far it gets through the conditions that the
 *	  evaluator can decide by itself.
 *
 * 1. A filter goes into the request if it is made of comparisons and matches of the row's cells, and of what programs
 *	  (expression.c) make of them, with each other and with what is the same for all rows, by AND, OR, NOT and IN. The others are evaluated here, for rows that got through.
 * 2. A row whose outcome is not told is evaluated here from the first filter on, and asked about alone: what is refused is
 *	  raised then. So is one with a cell that is stored outside its row.
 * 3. What is the same for all rows is computed when the first rows of a scan come, and again when the scan begins anew. As
 *	  long as it is the value of a subquery that did not run yet, the rows of a batch are evaluated here.
 */
#include "ahead.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define MAX_COLUMNS		16
#define MAX_PROGRAMS	16
#define MAX_CONSTANTS	96
#define MAX_COLLATIONS	8

/* What a condition needs of its collation */
typedef enum Rules
{
	RULES_OF_ORDER,
	RULES_OF_LETTERS,
	RULES_OF_EQUALITY			/* for refusals alone: nothing of it goes into the request */
} Rules;

typedef struct Sign
{
	PGFunction	function;
	char		sign;
	Rules		rules;
	bool		negated;
} Sign;

/* What a function asks of two operands; false: it is no condition */
static bool
SignOf(Oid function, Sign *sign)
{
	static const Sign signs[] = {
		{encdb_like, 'L', RULES_OF_EQUALITY}, {encdb_nlike, 'L', RULES_OF_EQUALITY, true},
		{encdb_ilike, 'I', RULES_OF_LETTERS}, {encdb_nilike, 'I', RULES_OF_LETTERS, true},
		{encdb_starts_with, 'S', RULES_OF_EQUALITY},
		{encdb_regex, 'R', RULES_OF_LETTERS}, {encdb_nregex, 'R', RULES_OF_LETTERS, true},
		{encdb_similar, 'T', RULES_OF_LETTERS}, {encdb_nsimilar, 'T', RULES_OF_LETTERS, true},
		{encdb_has_words, 'W', RULES_OF_LETTERS},
	};
	FmgrInfo	info;
	int			plain;

	/* PostgreSQL's own */
	if (function < FirstNormalObjectId)
		return false;
	/* Not its own address if it has settings, or acts as its owner */
	fmgr_info(function, &info);
	*sign = (Sign) {info.fn_addr, encdb_comparison_sign(info.fn_addr, &plain), RULES_OF_ORDER};
	if (sign->sign)
		return true;
	for (size_t i = 0; i < lengthof(signs); i++)
		if (signs[i].function == info.fn_addr)
		{
			*sign = signs[i];
			return true;
		}
	return false;
}

/* Conditions while they are made. They may be given up in the middle */
typedef struct Maker
{
	int			relation;		/* of the row's columns */
	PlanState  *parent;
	StringInfoData bytes;
	int			depth;
	int			ncolumns;
	AttrNumber	columns[MAX_COLUMNS];
	int			nconstants;
	Node	   *constants[MAX_CONSTANTS];
	int			nprograms;
	StringInfoData programs[MAX_PROGRAMS];
	int			ncollations;
	const char *collations[MAX_COLLATIONS];
} Maker;

struct AheadFilter
{
	PgsealFilter request;
	int			nconditions;
	AttrNumber	columns[MAX_COLUMNS];
	AttrNumber	last;			/* of these */
	const PlainType *plain_columns[MAX_COLUMNS];	/* NULL of those that hold cells */
	TupleTableSlot *slot;		/* of the row whose cells are taken */
	Node	   *expressions[MAX_CONSTANTS];
	const PlainType *plain_constants[MAX_CONSTANTS];
	ExprState  *constants[MAX_CONSTANTS];
	PgsealBytes values[MAX_CONSTANTS];
	PgsealBytes programs[MAX_PROGRAMS];
	PgsealBytes collations[MAX_COLLATIONS];
	ExprState  *others;			/* the filters that did not go into it, or NULL */
	MemoryContext context;		/* of the values */
	MemoryContext operands;		/* that are made of plain columns, until others are asked about */
	bool		is_computed;	/* they are */
	uint64		left_out;		/* the batch whose first rows were asked about without this */
	uint64		batch;
	uint64		epoch;
	uint8		outcomes[MAX_AHEAD];	/* FilterOutcome */
};

static bool MakeCondition(Maker *maker, Node *node);

/* Whether a node is a constant or a parameter: its value is there, and cannot be refused */
static bool
IsSame(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Const) || IsA(node, Param);
}

static bool
PutConstant(Maker *maker, StringInfo bytes, Node *node)
{
	int			at = 0;

	while (at < maker->nconstants && !equal(maker->constants[at], node))
		at++;
	if (at == MAX_CONSTANTS)
		return false;
	maker->constants[at] = node;
	maker->nconstants = Max(maker->nconstants, at + 1);
	appendStringInfoChar(bytes, (char) (PGSEAL_CONSTANT | at));
	return true;
}

static bool
PutColumn(Maker *maker, StringInfo bytes, AttrNumber column)
{
	int			at = 0;

	while (at < maker->ncolumns && maker->columns[at] != column)
		at++;
	if (at == MAX_COLUMNS)
		return false;
	maker->columns[at] = column;
	maker->ncolumns = Max(maker->ncolumns, at + 1);
	appendStringInfoChar(bytes, (char) at);
	return true;
}

/* A column of the row, or what is the same for all rows */
static bool
PutCell(Maker *maker, StringInfo bytes, Node *node)
{
	if (IsA(node, Var))
	{
		Var		   *column = (Var *) node;

		return column->varno == maker->relation && column->varattno > 0 && PutColumn(maker, bytes, column->varattno);
	}
	return IsSame(node) && PutConstant(maker, bytes, node);
}

/* The number of a program, which is added if it is another one; -1: there are too many */
static int
NumberOf(Maker *maker, StringInfo program)
{
	int			at = 0;

	while (at < maker->nprograms &&
		   (maker->programs[at].len != program->len || memcmp(maker->programs[at].data, program->data, program->len) != 0))
		at++;
	if (at == MAX_PROGRAMS)
		return -1;
	maker->programs[at] = *program;
	maker->nprograms = Max(maker->nprograms, at + 1);
	return at;
}

static bool
PutComputed(Maker *maker, Node *node)
{
	StringInfoData steps;
	StringInfoData program;
	List	   *operands;
	ListCell   *cell;
	int			number;

	if (!encdb_expression_steps(node, &steps, &operands))
		return false;
	initStringInfo(&program);
	appendStringInfoChar(&program, (char) list_length(operands));
	foreach(cell, operands)
		if (!PutCell(maker, &program, lfirst(cell)))
			return false;
	appendBinaryStringInfo(&program, steps.data, steps.len);
	number = NumberOf(maker, &program);
	if (number < 0)
		return false;
	appendStringInfoChar(&maker->bytes, (char) (PGSEAL_COMPUTED | number));
	return true;
}

/* A plain value that the server has: a column, or what is the same for all rows */
static bool
PutPlain(Maker *maker, Node *node)
{
	Node	   *inner = node;

	while (IsA(inner, RelabelType))
		inner = (Node *) ((RelabelType *) inner)->arg;
	if (IsA(inner, Var))
		return encdb_plain_type(getBaseType(exprType(inner))) && PutCell(maker, &maker->bytes, inner);
	return encdb_plain_is_steady(node) && PutConstant(maker, &maker->bytes, node);
}

static bool
PutOperand(Maker *maker, Node *node)
{
	if (encdb_plain_type(getBaseType(exprType(node))))
		return PutPlain(maker, node);
	if (IsA(node, Var) || IsSame(node))
		return PutCell(maker, &maker->bytes, node);
	return PutComputed(maker, node);
}

/* Puts the number of a locale; C has none */
static bool
PutLocale(Maker *maker, const char *locale)
{
	int			at = 0;

	if (locale == NULL)
	{
		appendStringInfoChar(&maker->bytes, 0);
		return true;
	}
	while (at < maker->ncollations && strcmp(maker->collations[at], locale) != 0)
		at++;
	if (at == MAX_COLLATIONS)
		return false;
	maker->collations[at] = locale;
	maker->ncollations = Max(maker->ncollations, at + 1);
	appendStringInfoChar(&maker->bytes, (char) (at + 1));
	return true;
}

/* Only text has a collation; one that is refused is refused by the operator */
static bool
PutRules(Maker *maker, const Sign *sign, Oid type, Oid collation)
{
	bool		is_text = type_is_collatable(type);

	if (is_text && !(sign->rules == RULES_OF_LETTERS ? encdb_has_ctype(collation) : encdb_has_rules(collation)))
		return false;
	if (sign->rules == RULES_OF_EQUALITY)
		return true;
	if (!is_text)
		return PutLocale(maker, NULL);
	return PutLocale(maker, sign->rules == RULES_OF_LETTERS ? encdb_ctype(collation) : encdb_locale(collation));
}

static bool
MakeCall(Maker *maker, const Sign *sign, Node *left, Node *right, Oid collation)
{
	if (sign->negated)
		appendStringInfoChar(&maker->bytes, '~');
	appendStringInfoChar(&maker->bytes, sign->sign);
	return PutOperand(maker, left) && PutOperand(maker, right) && PutRules(maker, sign, exprType(left), collation);
}

static bool
MakeOperator(Maker *maker, Oid function, List *arguments, Oid collation)
{
	Sign		sign;

	return list_length(arguments) == 2 && SignOf(function, &sign) &&
		MakeCall(maker, &sign, linitial(arguments), lsecond(arguments), collation);
}

/* IN and its like, with a list of constants */
static bool
MakeInList(Maker *maker, ScalarArrayOpExpr *in)
{
	Sign		sign;
	Const	   *list = lsecond(in->args);
	Oid			type;
	int16		len;
	bool		by_value;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			count;

	if (!SignOf(in->opfuncid, &sign) || !IsA(list, Const) || list->constisnull)
		return false;
	type = get_element_type(list->consttype);
	if (!OidIsValid(type))
		return false;
	get_typlenbyvalalign(type, &len, &by_value, &align);
	deconstruct_array(DatumGetArrayTypeP(list->constvalue), type, len, by_value, align, &values, &nulls, &count);
	if (count > MAX_CONSTANTS)
		return false;
	appendStringInfoChar(&maker->bytes, in->useOr ? '|' : '&');
	appendStringInfoChar(&maker->bytes, (char) count);
	for (int i = 0; i < count; i++)
	{
		Const	   *value = makeConst(type, -1, list->constcollid, len, values[i], nulls[i], by_value);

		if (!MakeCall(maker, &sign, linitial(in->args), (Node *) value, in->inputcollid))
			return false;
	}
	return true;
}

static bool
MakeBool(Maker *maker, BoolExpr *expression)
{
	int			count = list_length(expression->args);
	ListCell   *cell;

	if (count > UCHAR_MAX || ++maker->depth > PGSEAL_MOST_DEPTH - 3)
		return false;
	if (expression->boolop == NOT_EXPR)
		appendStringInfoChar(&maker->bytes, '~');
	else
	{
		appendStringInfoChar(&maker->bytes, expression->boolop == AND_EXPR ? '&' : '|');
		appendStringInfoChar(&maker->bytes, (char) count);
	}
	foreach(cell, expression->args)
		if (!MakeCondition(maker, lfirst(cell)))
			return false;
	maker->depth--;
	return true;
}

/* Adds a condition; false: it is none, and what was added is void */
static bool
MakeCondition(Maker *maker, Node *node)
{
	switch (nodeTag(node))
	{
		case T_OpExpr:
			return MakeOperator(maker, ((OpExpr *) node)->opfuncid, ((OpExpr *) node)->args, ((OpExpr *) node)->inputcollid);
		case T_FuncExpr:
			return MakeOperator(maker, ((FuncExpr *) node)->funcid, ((FuncExpr *) node)->args, ((FuncExpr *) node)->inputcollid);
		case T_ScalarArrayOpExpr:
			return MakeInList(maker, (ScalarArrayOpExpr *) node);
		case T_BoolExpr:
			return MakeBool(maker, (BoolExpr *) node);
		default:
			return false;
	}
}

/* Adds a filter as a whole, or not at all */
static bool
TryCondition(Maker *maker, Node *filter)
{
	Maker		before = *maker;

	if (MakeCondition(maker, filter) && maker->ncolumns > 0 && maker->bytes.len <= PGSEAL_MOST_FILTER)
		return true;
	before.bytes.data = maker->bytes.data;
	before.bytes.maxlen = maker->bytes.maxlen;
	*maker = before;
	return false;
}

static AheadFilter *
Finish(const Maker *maker, int nconditions, List *others, TupleTableSlot *slot)
{
	AheadFilter *filter = palloc0(sizeof(AheadFilter));

	filter->nconditions = nconditions;
	filter->slot = slot;
	memcpy(filter->columns, maker->columns, sizeof(filter->columns));
	for (int i = 0; i < maker->ncolumns; i++)
	{
		filter->last = Max(filter->last, maker->columns[i]);
		filter->plain_columns[i] =
			encdb_plain_type(getBaseType(TupleDescAttr(slot->tts_tupleDescriptor, maker->columns[i] - 1)->atttypid));
	}
	memcpy(filter->expressions, maker->constants, sizeof(filter->expressions));
	for (int i = 0; i < maker->nconstants; i++)
	{
		filter->constants[i] = ExecInitExpr((Expr *) maker->constants[i], maker->parent);
		filter->plain_constants[i] = encdb_plain_type(getBaseType(exprType(maker->constants[i])));
	}
	for (int i = 0; i < maker->nprograms; i++)
		filter->programs[i] = (PgsealBytes) {(const uint8 *) maker->programs[i].data, (size_t) maker->programs[i].len};
	for (int i = 0; i < maker->ncollations; i++)
		filter->collations[i] = (PgsealBytes) {(const uint8 *) pstrdup(maker->collations[i]), strlen(maker->collations[i])};
	filter->request = (PgsealFilter) {
		.conditions = {(const uint8 *) maker->bytes.data, (size_t) maker->bytes.len},
		.programs = filter->programs,.nprograms = maker->nprograms,
		.collations = filter->collations,.ncollations = maker->ncollations,
		.constants = filter->values,.nconstants = maker->nconstants,
		.columns = (uint8) maker->ncolumns,
	};
	filter->others = ExecInitQual(others, maker->parent);
	filter->context = AllocSetContextCreate(CurrentMemoryContext, "encdb filter", ALLOCSET_SMALL_SIZES);
	filter->operands = AllocSetContextCreate(CurrentMemoryContext, "encdb plain operands", ALLOCSET_SMALL_SIZES);
	return filter;
}

/* The filter of a node that is begun; NULL: there is nothing to ask by it */
AheadFilter *
encdb_ahead_filter_begin(Ahead *node)
{
	CustomScan *plan = (CustomScan *) node->scan.ss.ps.plan;
	int			relation = plan->scan.scanrelid > 0 ? (int) plan->scan.scanrelid : INDEX_VAR;
	Maker		maker = {relation, &node->scan.ss.ps};
	List	   *others = NIL;
	int			nconditions = 0;
	ListCell   *cell;

	initStringInfo(&maker.bytes);
	foreach(cell, plan->scan.plan.qual)
	{
		if (TryCondition(&maker, lfirst(cell)))
			nconditions++;
		else
			others = lappend(others, lfirst(cell));
	}
	if (nconditions == 0)
		return NULL;
	return Finish(&maker, nconditions, others, encdb_ahead_slot(node));
}

/* What is the same for all rows may be another now */
void
encdb_ahead_filter_again(AheadFilter *filter)
{
	if (filter)
		filter->is_computed = false;
}

/* Whether a constant is the value of a subquery that did not run yet: PostgreSQL runs it when a row needs it */
static bool
IsPending(Node *node, const ParamExecData *values)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC && values[((Param *) node)->paramid].execPlan != NULL;
}

static bool
ArePending(const Ahead *node, const AheadFilter *filter)
{
	for (size_t i = 0; i < filter->request.nconstants; i++)
		if (IsPending(filter->expressions[i], node->scan.ss.ps.state->es_param_exec_vals))
			return true;
	return false;
}

static void
Compute(Ahead *node, AheadFilter *filter)
{
	ExprContext *context = node->scan.ss.ps.ps_ExprContext;

	MemoryContextReset(filter->context);
	for (size_t i = 0; i < filter->request.nconstants; i++)
	{
		bool		is_null;
		Datum		value = ExecEvalExprSwitchContext(filter->constants[i], context, &is_null);
		MemoryContext old;

		filter->values[i] = (PgsealBytes) {NULL, 0};
		if (is_null)
			continue;
		old = MemoryContextSwitchTo(filter->context);
		if (filter->plain_constants[i])
			filter->values[i] = CellBytes(encdb_plain_operand(filter->plain_constants[i], value));
		else
			filter->values[i] = CellBytes((Cell *) PG_DETOAST_DATUM_COPY(value));
		MemoryContextSwitchTo(old);
	}
	filter->is_computed = true;
}

/* The cells of a row, which is taken apart once for all of them; false: one is stored outside of it */
static bool
TakeCells(const Ahead *node, const AheadFilter *filter, int row, PgsealBytes *cells)
{
	TupleTableSlot *slot = filter->slot;

	ExecStoreHeapTuple(node->rows[row], slot, false);
	slot_getsomeattrs(slot, filter->last);
	for (int i = 0; i < filter->request.columns; i++)
	{
		int			column = filter->columns[i] - 1;
		const PlainType *plain = filter->plain_columns[i];
		Cell	   *cell = (Cell *) DatumGetPointer(slot->tts_values[column]);

		cells[i] = (PgsealBytes) {NULL, 0};
		if (slot->tts_isnull[column])
			continue;
		if (plain)
		{
			if (!encdb_plain_take(plain, slot->tts_values[column], filter->operands, &cells[i]))
				return false;
			continue;
		}
		if (VARATT_IS_EXTERNAL(cell) || VARATT_IS_COMPRESSED(cell))
			return false;
		cells[i] = CellBytes(cell);
	}
	return true;
}

/* Asks about the rows from the current one on; false: refused */
static bool
Ask(Ahead *node, AheadFilter *filter)
{
	static PgsealBytes cells[MAX_AHEAD * MAX_COLUMNS];
	static PgsealFiltered told[MAX_AHEAD];
	int			rows[MAX_AHEAD];
	int			n = 0;

	MemoryContextReset(filter->operands);
	for (int row = node->current; row < node->nrows; row++)
	{
		filter->outcomes[row] = FILTER_UNTOLD;
		if (TakeCells(node, filter, row, cells + n * filter->request.columns))
			rows[n++] = row;
	}
	if (n > 0 && pgseal_filter_each(&filter->request, cells, n, told) != 0)
	{
		memset(filter->outcomes, FILTER_UNASKED, sizeof(filter->outcomes));
		return false;
	}
	for (int i = 0; i < n; i++)
		filter->outcomes[rows[i]] = told[i].fails ? FILTER_FAILS :
			told[i].hold == filter->nconditions ? FILTER_HOLDS : FILTER_UNTOLD;
	node->requests += n > 0;
	node->cells += n;
	return true;
}

static bool
IsFresh(const Ahead *node, const AheadFilter *filter)
{
	return filter->batch == node->batch && filter->epoch == encdb_epoch;
}

/* The outcome of the filters that were asked about, for the row that was given last */
FilterOutcome
encdb_ahead_filter(Ahead *node)
{
	AheadFilter *filter = node->filter;

	if (filter == NULL || node->scan.ss.ps.state->es_epq_active || !IsAhead())
		return FILTER_UNASKED;
	if (!filter->is_computed && ArePending(node, filter))
		filter->left_out = node->batch;
	if (filter->left_out == node->batch)
		return FILTER_UNASKED;
	if (!filter->is_computed)
		Compute(node, filter);
	if (!IsFresh(node, filter))
	{
		memset(filter->outcomes, FILTER_UNASKED, sizeof(filter->outcomes));
		filter->batch = node->batch;
		filter->epoch = encdb_epoch;
	}
	if (filter->outcomes[node->current] == FILTER_UNASKED && !Ask(node, filter))
		return FILTER_UNASKED;
	return filter->outcomes[node->current];
}

/* The filters that are left for rows that got through */
ExprState *
encdb_ahead_filter_others(const AheadFilter *filter)
{
	return filter->others;
}

/* Whether a row is known not to get through */
bool
encdb_ahead_filter_fails(const Ahead *node, int row)
{
	const AheadFilter *filter = node->filter;

	return filter && IsFresh(node, filter) && filter->outcomes[row] == FILTER_FAILS;
}
