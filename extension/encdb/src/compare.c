/*
 * compare.c
 *	  Comparison operators, and the B-tree's support functions.
 */
#include "ahead.h"

#include "utils/sortsupport.h"

/* The locale that orders these cells: only text has one */
const char *
encdb_locale_of(PgsealBytes cell, Oid collation)
{
	if (cell.len < 2 || cell.data[1] != TYPE_TEXT)
		return NULL;
	return encdb_locale(collation);
}

/* For equality, from the sort whose rows are read; any order but 0 is as good. False: it does not know */
static bool
EqualBySort(const FmgrInfo *call, Cell *left, Cell *right, int *order)
{
	bool		equal;

	if (!encdb_is_equality(call) || !encdb_sort_equal(left, right, &equal))
		return false;
	*order = equal ? 0 : 1;
	return true;
}

/* False: refused, and the library knows why. `call` is an operator's, and else NULL */
static bool
TryCompare(const FmgrInfo *call, Cell *left, Cell *right, Oid collation, int *order)
{
	const char *locale = encdb_locale_of(CellBytes(left), collation);

	if (!Attached())
		return false;
	if (encdb_btree_compare(left, right, locale, order))
		return true;
	if (call && (EqualBySort(call, left, right, order) || encdb_ahead_order(call, left, right, locale, order)))
		return true;
	if (likely(pgseal_compare(CellBytes(left), CellBytes(right), locale, order) == 0))
		return true;
	return encdb_try_remedy() &&
		pgseal_compare(CellBytes(left), CellBytes(right), locale, order) == 0;
}

/* `call` is an operator's, and else NULL. One of both may be a plain operand */
int
encdb_compare_call(const FmgrInfo *call, Cell *left, Cell *right, Oid collation)
{
	int			order;

	if (unlikely(encdb_in_analyze()))
		return encdb_order_of_bytes(left, right);
	if (!TryCompare(call, left, right, collation, &order))
		encdb_refuse();
	return order;
}

int
encdb_compare(Cell *left, Cell *right, Oid collation)
{
	return encdb_compare_call(NULL, left, right, collation);
}

/* Compares the arguments and lets go of what was detoasted: indexes count on that */
static int
CompareArguments(FunctionCallInfo fcinfo)
{
	Cell	   *left = PG_GETARG_CELL(0);
	Cell	   *right = PG_GETARG_CELL(1);
	int			order = encdb_compare_call(fcinfo->flinfo, left, right, PG_GET_COLLATION());

	PG_FREE_IF_COPY(left, 0);
	PG_FREE_IF_COPY(right, 1);
	return order;
}

#define COMPARISON(name, operator) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { PG_RETURN_BOOL(CompareArguments(fcinfo) operator 0); }

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

/* Support function 1 of a B-tree */
PG_FUNCTION_INFO_V1(encdb_cmp);
Datum
encdb_cmp(PG_FUNCTION_ARGS)
{
	Cell	   *left = PG_GETARG_CELL(0);
	Cell	   *right = PG_GETARG_CELL(1);
	int			order;

	if (unlikely(encdb_in_analyze()))
		order = encdb_order_of_bytes(left, right);
	else if (!TryCompare(NULL, left, right, PG_GET_COLLATION(), &order) &&
			 !encdb_order_in_vacuum(fcinfo, &order))
		encdb_refuse();
	PG_FREE_IF_COPY(left, 0);
	PG_FREE_IF_COPY(right, 1);
	PG_RETURN_INT32(order);
}

/* det_type: equal values are equal bytes, and no key is needed */
#define COMPARISON_OF_BYTES(name, operator) \
	PG_FUNCTION_INFO_V1(encdb_bytes_##name); \
	Datum encdb_bytes_##name(PG_FUNCTION_ARGS) { PG_RETURN_BOOL(OrderOfBytes(fcinfo) operator 0); }

static int
OrderOfBytes(FunctionCallInfo fcinfo)
{
	Cell	   *left = PG_GETARG_CELL(0);
	Cell	   *right = PG_GETARG_CELL(1);
	int			order = encdb_order_of_bytes(left, right);

	PG_FREE_IF_COPY(left, 0);
	PG_FREE_IF_COPY(right, 1);
	return order;
}

COMPARISON_OF_BYTES(eq, ==)
COMPARISON_OF_BYTES(ne, !=)
COMPARISON_OF_BYTES(lt, <)
COMPARISON_OF_BYTES(le, <=)
COMPARISON_OF_BYTES(gt, >)
COMPARISON_OF_BYTES(ge, >=)

PG_FUNCTION_INFO_V1(encdb_bytes_cmp);
Datum
encdb_bytes_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(OrderOfBytes(fcinfo));
}
