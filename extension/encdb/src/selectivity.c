/*
 * selectivity.c
 *	  How many rows <, <=, > and >= are expected to find in an encrypted column, of which PostgreSQL has no histogram.
 *
 * Of one comparison nothing else is known than for PostgreSQL's own estimators: a third. Of two that make a range these take
 * half a per cent, so that an index is used for it. That is kept for columns that have an index. Of a column without one, a
 * range is more often a year than a day, and an estimate that is much too small makes joins loop that had better hash: such
 * comparisons are taken for independent ones.
 */
#include "encdb.h"

#include "access/stratnum.h"
#include "nodes/pathnodes.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include <math.h>

/* Before 18 an operator's meaning is a strategy of btrees */
#if PG_VERSION_NUM < 180000
#define get_op_index_interpretation get_op_btree_interpretation
#define OpIndexInterpretation OpBtreeInterpretation
#define cmptype		strategy
#define COMPARE_LT	BTLessStrategyNumber
#define COMPARE_LE	BTLessEqualStrategyNumber
#define COMPARE_GE	BTGreaterEqualStrategyNumber
#define COMPARE_GT	BTGreaterStrategyNumber
#endif

/* The same as DirectionOf() of a comparison with a plain value, which is in no operator family */
static int
DirectionBesidePlain(Oid operator)
{
	int			plain;

	switch (encdb_comparison_of(get_opcode(operator), &plain))
	{
		case '<':
		case 'l':
			return 1;
		case '>':
		case 'g':
			return -1;
		default:
			return 0;
	}
}

/* Whether an operator looks for lesser values on its left: 1, for greater ones: -1, or neither: 0 */
static int
DirectionOf(Oid operator)
{
	List	   *interpretations = get_op_index_interpretation(operator);

	if (interpretations == NIL)
		return DirectionBesidePlain(operator);
	switch (((OpIndexInterpretation *) linitial(interpretations))->cmptype)
	{
		case COMPARE_LT:
		case COMPARE_LE:
			return 1;
		case COMPARE_GT:
		case COMPARE_GE:
			return -1;
		default:
			return 0;
	}
}

/* The direction of a filter on the column, as if the column was on its left; 0 of other filters */
static int
DirectionOn(Node *filter, Node *column)
{
	OpExpr	   *operator = (OpExpr *) filter;

	if (!IsA(filter, OpExpr) || list_length(operator->args) != 2)
		return 0;
	if (equal(linitial(operator->args), column))
		return DirectionOf(operator->opno);
	return equal(lsecond(operator->args), column) ? -DirectionOf(operator->opno) : 0;
}

/* Whether the table has a filter on the column for the other end of a range */
static bool
IsOfRange(RelOptInfo *rel, Node *column, int direction)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
		if (DirectionOn((Node *) lfirst_node(RestrictInfo, cell)->clause, column) == -direction)
			return true;
	return false;
}

/* Of an expression it is not asked whether there is an index */
static bool
MayHaveIndex(RelOptInfo *rel, Node *column)
{
	ListCell   *cell;

	if (!IsA(column, Var))
		return true;
	foreach(cell, rel->indexlist)
		if (((IndexOptInfo *) lfirst(cell))->indexkeys[0] == ((Var *) column)->varattno)
			return true;
	return false;
}

static double
SelectivityBeside(const VariableStatData *column, Node *other, int direction)
{
	if (IsA(other, Const) && ((Const *) other)->constisnull)
		return 0;
	/* There is an index, and another condition for the other end */
	if (encdb_is_prefix_end(other))
		return sqrt(DEFAULT_RANGE_INEQ_SEL);
	if (column->rel == NULL || direction == 0 || !IsOfRange(column->rel, column->var, direction) ||
		!MayHaveIndex(column->rel, column->var))
		return DEFAULT_INEQ_SEL;
	return sqrt(DEFAULT_RANGE_INEQ_SEL);
}

/* RESTRICT of <, <=, > and >= */
PG_FUNCTION_INFO_V1(encdb_range_selectivity);
Datum
encdb_range_selectivity(PG_FUNCTION_ARGS)
{
	PlannerInfo *root = (PlannerInfo *) PG_GETARG_POINTER(0);
	List	   *args = (List *) PG_GETARG_POINTER(2);
	VariableStatData column;
	Node	   *other;
	bool		is_left;
	int			direction = DirectionOf(PG_GETARG_OID(1));
	double		selectivity;

	if (!get_restriction_variable(root, args, PG_GETARG_INT32(3), &column, &other, &is_left))
		PG_RETURN_FLOAT8(DEFAULT_INEQ_SEL);
	selectivity = SelectivityBeside(&column, other, is_left ? direction : -direction);
	ReleaseVariableStats(column);
	PG_RETURN_FLOAT8(selectivity);
}

/* RESTRICT of = and <> with a plain value, whose statistics would have values compared when a query is planned */
PG_FUNCTION_INFO_V1(encdb_equal_selectivity);
Datum
encdb_equal_selectivity(PG_FUNCTION_ARGS)
{
	PlannerInfo *root = (PlannerInfo *) PG_GETARG_POINTER(0);
	List	   *args = (List *) PG_GETARG_POINTER(2);
	VariableStatData column;
	Node	   *other;
	bool		is_left;
	bool		is_default;
	int			plain;
	double		selectivity = DEFAULT_EQ_SEL;

	if (get_restriction_variable(root, args, PG_GETARG_INT32(3), &column, &other, &is_left))
	{
		selectivity = 1 / Max(get_variable_numdistinct(&column, &is_default), 1);
		ReleaseVariableStats(column);
	}
	if (encdb_comparison_of(get_opcode(PG_GETARG_OID(1)), &plain) == '!')
		selectivity = 1 - selectivity;
	PG_RETURN_FLOAT8(selectivity);
}
