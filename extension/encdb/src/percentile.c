/*
 * percentile.c
 *	  percentile_cont of encrypted numbers. percentile_disc, mode and the hypothetical-set aggregates are PostgreSQL's own, which
 *	  work on any type that has an order.
 *
 * 1. Cells are sorted as they are, and so are ranked together (sort.c). They become doubles in no other place than the result,
 *	  which is between two of them: the order of numbers of a type is that of their doubles.
 * 2. The evaluator interpolates, as arithmetic. A cell of a double that is the result alone comes as it is.
 * 3. Aggregates that differ in their fractions alone share a sort, and each reads it from its beginning.
 */
#include "encdb.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "miscadmin.h"

#include <math.h>

#define TYPE_FLOAT8		0x0c

#if PG_VERSION_NUM >= 160000
#define NextDatum(sort, value, is_null)		tuplesort_getdatum(sort, true, true, value, is_null, NULL)
#else
#define NextDatum(sort, value, is_null)		tuplesort_getdatum(sort, true, value, is_null, NULL)
#endif

/* The cells of a group */
typedef struct Sorted
{
	Tuplesortstate *sort;
	int64		nrows;
	bool		is_done;
} Sorted;

/* A place between two rows, which are counted from 0 on */
typedef struct Place
{
	int64		first;
	int64		second;			/* the first, or the one behind it */
	double		fraction;		/* of the way from the first one */
} Place;

static void
EndSort(Datum sorted)
{
	Sorted	   *state = (Sorted *) DatumGetPointer(sorted);

	if (state->sort)
		tuplesort_end(state->sort);
	state->sort = NULL;
}

static Tuplesortstate *
BeginSort(FunctionCallInfo fcinfo)
{
	Aggref	   *aggregate = AggGetAggref(fcinfo);
	SortGroupClause *order;
	Node	   *sorted;

	if (!aggregate || !AGGKIND_IS_ORDERED_SET(aggregate->aggkind) || list_length(aggregate->aggorder) != 1)
		elog(ERROR, "ordered-set aggregate called in non-aggregate context");
	order = linitial_node(SortGroupClause, aggregate->aggorder);
	sorted = (Node *) get_sortgroupclause_tle(order, aggregate->args)->expr;
	return tuplesort_begin_datum(exprType(sorted), order->sortop, exprCollation(sorted), order->nulls_first, work_mem, NULL,
								 AggStateIsShared(fcinfo) ? TUPLESORT_RANDOMACCESS : TUPLESORT_NONE);
}

static Sorted *
MakeSorted(FunctionCallInfo fcinfo)
{
	MemoryContext context;
	MemoryContext caller;
	Sorted	   *state;

	if (AggCheckCallContext(fcinfo, &context) != AGG_CONTEXT_AGGREGATE)
		elog(ERROR, "ordered-set aggregate called in non-aggregate context");
	caller = MemoryContextSwitchTo(context);
	state = palloc0(sizeof(Sorted));
	state->sort = BeginSort(fcinfo);
	AggRegisterCallback(fcinfo, EndSort, PointerGetDatum(state));
	MemoryContextSwitchTo(caller);
	return state;
}

/* Sorts a cell; NULL does not count */
PG_FUNCTION_INFO_V1(encdb_percentile_step);
Datum
encdb_percentile_step(PG_FUNCTION_ARGS)
{
	Sorted	   *state = PG_ARGISNULL(0) ? MakeSorted(fcinfo) : (Sorted *) PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
	{
		tuplesort_putdatum(state->sort, PG_GETARG_DATUM(1), false);
		state->nrows++;
	}
	PG_RETURN_POINTER(state);
}

static Place
PlaceOf(double fraction, int64 nrows)
{
	double		at = fraction * (nrows - 1);

	return (Place) {(int64) floor(at), (int64) ceil(at), at - floor(at)};
}

static void
CheckFraction(double fraction)
{
	if (fraction < 0 || fraction > 1 || isnan(fraction))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("percentile value %g is not between 0 and 1", fraction)));
}

static Cell *
NextCell(Sorted *state)
{
	Datum		value;
	bool		is_null;

	if (!NextDatum(state->sort, &value, &is_null) || is_null)
		elog(ERROR, "a row of percentile_cont is missing");
	return (Cell *) PG_DETOAST_DATUM_PACKED(value);
}

static void
Skip(Sorted *state, int64 nrows)
{
	if (!tuplesort_skiptuples(state->sort, nrows, true))
		elog(ERROR, "a row of percentile_cont is missing");
}

/* Goes to the first row */
static void
Rewind(Sorted *state)
{
	if (state->is_done)
		tuplesort_rescan(state->sort);
	else
		tuplesort_performsort(state->sort);
	state->is_done = true;
}

/* The double between two numbers. A fraction goes as the bits that it has, and 0 gives the first one */
static Datum
Between(Cell *first, Cell *second, double fraction)
{
	PgsealBytes operands[] = {CellBytes(first), CellBytes(second)};
	PgsealBytes result;
	uint64		bits;
	char		steps[32];
	int			is_null;

	if (first == second && CellType(first) == TYPE_FLOAT8)
		return PointerGetDatum(first);
	memcpy(&bits, &fraction, sizeof(bits));
	snprintf(steps, sizeof(steps), "$$(L" UINT64_FORMAT ")", bits);
	ENCDB_CALL(pgseal_compute((PgsealBytes) {(const uint8_t *) steps, strlen(steps)}, operands, 2, &result, &is_null));
	return encdb_cell_datum(result);
}

PG_FUNCTION_INFO_V1(encdb_percentile_cont);
Datum
encdb_percentile_cont(PG_FUNCTION_ARGS)
{
	Sorted	   *state;
	Place		place;
	Cell	   *first;

	if (PG_ARGISNULL(1))
		PG_RETURN_NULL();
	CheckFraction(PG_GETARG_FLOAT8(1));
	state = PG_ARGISNULL(0) ? NULL : (Sorted *) PG_GETARG_POINTER(0);
	if (state == NULL || state->nrows == 0)
		PG_RETURN_NULL();
	place = PlaceOf(PG_GETARG_FLOAT8(1), state->nrows);
	Rewind(state);
	Skip(state, place.first);
	first = NextCell(state);
	return Between(first, place.first == place.second ? first : NextCell(state), place.fraction);
}

/* A fraction of an array, with its place there */
typedef struct Fraction
{
	Place		place;
	int			at;
} Fraction;

static int
CompareFractions(const void *left, const void *right)
{
	const Place *a = &((const Fraction *) left)->place;
	const Place *b = &((const Fraction *) right)->place;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->second < b->second ? -1 : a->second > b->second;
}

/* The fractions of an array that are not NULL, in the order of their rows; their number */
static int
FractionsInOrder(const Datum *fractions, const bool *nulls, int nfractions, int64 nrows, Fraction *ordered)
{
	int			n = 0;

	for (int i = 0; i < nfractions; i++)
	{
		if (nulls[i])
			continue;
		CheckFraction(DatumGetFloat8(fractions[i]));
		ordered[n++] = (Fraction) {PlaceOf(DatumGetFloat8(fractions[i]), nrows), i};
	}
	qsort(ordered, n, sizeof(Fraction), CompareFractions);
	return n;
}

/* Puts the percentile of each fraction where it was in the array */
static void
PercentilesOf(Sorted *state, const Fraction *ordered, int n, Datum *results)
{
	Cell	   *first = NULL;
	Cell	   *last = NULL;
	int64		read = 0;		/* rows; `last` is of the last one, `first` of that or of the one before */

	if (n > 0)
		Rewind(state);
	for (int i = 0; i < n; i++)
	{
		const Place *place = &ordered[i].place;

		if (place->first >= read)
		{
			Skip(state, place->first - read);
			last = first = NextCell(state);
			read = place->first + 1;
		}
		else if (place->first == read - 1)
			first = last;
		if (place->second >= read)
		{
			last = NextCell(state);
			read++;
		}
		results[ordered[i].at] = Between(first, place->first == place->second ? first : last, place->fraction);
	}
}

PG_FUNCTION_INFO_V1(encdb_percentiles_cont);
Datum
encdb_percentiles_cont(PG_FUNCTION_ARGS)
{
	Sorted	   *state = PG_ARGISNULL(0) ? NULL : (Sorted *) PG_GETARG_POINTER(0);
	ArrayType  *array;
	Oid			type;
	int16		length;
	bool		by_value;
	char		align;
	Datum	   *fractions;
	bool	   *nulls;
	int			nfractions;
	Fraction   *ordered;

	if (state == NULL || state->nrows == 0 || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	array = PG_GETARG_ARRAYTYPE_P(1);
	type = get_element_type(AggGetAggref(fcinfo)->aggtype);
	deconstruct_array(array, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &fractions, &nulls, &nfractions);
	if (nfractions == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(type));
	ordered = palloc(nfractions * sizeof(Fraction));
	PercentilesOf(state, ordered, FractionsInOrder(fractions, nulls, nfractions, state->nrows, ordered), fractions);
	get_typlenbyvalalign(type, &length, &by_value, &align);
	PG_RETURN_ARRAYTYPE_P(construct_md_array(fractions, nulls, ARR_NDIM(array), ARR_DIMS(array), ARR_LBOUND(array), type, length,
											 by_value, align));
}
