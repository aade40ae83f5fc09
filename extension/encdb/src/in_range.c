/*
 * in_range.c
 *	  Support function 3 of a B-tree: whether a value is within a distance of another one, for the frames of windows that say
 *	  RANGE ... PRECEDING or FOLLOWING with a value.
 *
 * 1. The outcome is that of PostgreSQL's in_range functions: `value <= end` or `value >= end`, where the end is `base - distance`
 *	  or `base + distance`. What the evaluator is asked is arithmetic and comparisons, under their grants.
 * 2. A distance of times is an interval, which is plain everywhere. One of numbers is a cell: nothing here makes one of a number.
 * 3. A window asks about many values with one base, and has one distance. So the end of the last base is kept, and that the
 *	  distance is none below zero, for as long as the evaluator's answers hold.
 * 4. A window calls this in memory that lives as long as the query. What a call allocates is gone at its end.
 */
#include "encdb.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

typedef enum Numbers
{
	INTEGERS,
	FLOATS,
	DECIMALS
} Numbers;

/* What a call of this function in a query keeps */
typedef struct Frame
{
	MemoryContext kept;
	MemoryContext scratch;		/* of one call */
	uint64		epoch;			/* in which the rest was answered */
	bytea	   *distance;		/* that was looked at, or NULL */
	Cell	   *negative;		/* of a distance that is infinite, else NULL */
	bytea	   *base;			/* whose end this is, or NULL */
	Cell	   *end;			/* NULL: it is beyond its type */
	bool		before;			/* base - distance */
} Frame;

/* The arguments, without the distance */
typedef struct Question
{
	Cell	   *value;
	Cell	   *base;
	bool		before;			/* the end is base - distance */
	bool		less;			/* whether value <= end is asked, rather than value >= end */
} Question;

static Frame *
FrameOf(FunctionCallInfo fcinfo)
{
	Frame	   *frame = fcinfo->flinfo->fn_extra;
	MemoryContext context = fcinfo->flinfo->fn_mcxt;

	if (frame != NULL)
		return frame;
	frame = MemoryContextAllocZero(context, sizeof(Frame));
	frame->kept = AllocSetContextCreate(context, "encdb frame", ALLOCSET_SMALL_SIZES);
	frame->scratch = AllocSetContextCreate(context, "encdb row of a frame", ALLOCSET_SMALL_SIZES);
	fcinfo->flinfo->fn_extra = frame;
	return frame;
}

static void
Forget(Frame *frame)
{
	MemoryContextReset(frame->kept);
	frame->distance = NULL;
	frame->negative = NULL;
	frame->base = NULL;
	frame->end = NULL;
}

/* Forgets what the evaluator may answer otherwise by now */
static void
Renew(Frame *frame)
{
	if (!Attached())
		encdb_refuse();
	if (frame->epoch != encdb_epoch)
		Forget(frame);
	frame->epoch = encdb_epoch;
}

static bool
IsKept(const bytea *kept, PgsealBytes bytes)
{
	return kept != NULL && VARSIZE_ANY_EXHDR(kept) == bytes.len && memcmp(VARDATA_ANY(kept), bytes.data, bytes.len) == 0;
}

/* A copy of a cell, or of other bytes, that is kept */
static bytea *
Keep(const Frame *frame, PgsealBytes bytes)
{
	MemoryContext caller = MemoryContextSwitchTo(frame->kept);
	bytea	   *copy = DatumGetByteaPP(encdb_cell_datum(bytes));

	MemoryContextSwitchTo(caller);
	return copy;
}

/* Whether the last call was refused with this SQLSTATE. Nothing is raised and caught for it */
static bool
IsRefusedWith(int code)
{
	PgsealRefusal refusal;
	const char *it = refusal.sqlstate;

	pgseal_refusal(&refusal);
	return MAKE_SQLSTATE(it[0], it[1], it[2], it[3], it[4]) == code;
}

static Cell *
Difference(Cell *left, Cell *right)
{
	PgsealBytes result;

	ENCDB_CALL(pgseal_arithmetic('-', CellBytes(left), CellBytes(right), &result));
	return DatumGetByteaPP(encdb_cell_datum(result));
}

static Cell *
Negative(Cell *cell)
{
	PgsealBytes result;

	ENCDB_CALL(pgseal_unary('~', CellBytes(cell), &result));
	return DatumGetByteaPP(encdb_cell_datum(result));
}

/* Of numbers and times, which have no collation */
static int
Order(Cell *left, Cell *right)
{
	return encdb_compare(left, right, InvalidOid);
}

static bool
IsWithinEnd(Cell *value, Cell *end, bool less)
{
	int			order = Order(value, end);

	return less ? order <= 0 : order >= 0;
}

static void
RefuseDistance(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PRECEDING_OR_FOLLOWING_SIZE),
			 errmsg("invalid preceding or following size in window function")));
}

/* Of a number that equals its negative: it is zero or NaN, and zero is no divisor */
static bool
IsNaN(Cell *cell)
{
	PgsealBytes quotient;

	if (ENCDB_TRY(pgseal_arithmetic('/', CellBytes(cell), CellBytes(cell), &quotient)))
		return true;
	if (!IsRefusedWith(ERRCODE_DIVISION_BY_ZERO))
		encdb_refuse();
	return false;
}

/*
 * Raises that a distance is below zero, or NaN, as PostgreSQL does. There is no cell of zero to compare it with: an integer less
 * itself is one, and other numbers are compared with their negatives, because infinity less itself is NaN.
 */
static void
LookAtDistance(Frame *frame, Numbers numbers, Cell *distance)
{
	Cell	   *negative;
	int			order;

	if (IsKept(frame->distance, CellBytes(distance)))
		return;
	Forget(frame);
	if (numbers == INTEGERS)
	{
		if (Order(distance, Difference(distance, distance)) < 0)
			RefuseDistance();
	}
	else
	{
		negative = Negative(distance);
		order = Order(distance, negative);
		if (order < 0 || (order == 0 && IsNaN(distance)))
			RefuseDistance();
		/* NaN comes after all other numbers */
		if (order > 0 && Order(Difference(distance, distance), distance) > 0)
			frame->negative = Keep(frame, CellBytes(negative));
	}
	frame->distance = Keep(frame, CellBytes(distance));
}

/* Keeps the end that this base has; `end` without bytes is none */
static void
KeepEnd(Frame *frame, const Question *question, PgsealBytes end)
{
	if (frame->base != NULL)
		pfree(frame->base);
	if (frame->end != NULL)
		pfree(frame->end);
	frame->base = frame->end = NULL;
	frame->end = end.len > 0 ? Keep(frame, end) : NULL;
	frame->base = Keep(frame, CellBytes(question->base));
	frame->before = question->before;
}

static bool
HasEnd(const Frame *frame, const Question *question)
{
	return frame->before == question->before && IsKept(frame->base, CellBytes(question->base));
}

/* The end of numbers, or NULL: it is beyond the type, where PostgreSQL takes a float's for infinite, and others' for what they are */
static Cell *
EndOfNumbers(Frame *frame, Numbers numbers, const Question *question, Cell *distance)
{
	PgsealBytes end = {NULL, 0};

	if (HasEnd(frame, question))
		return frame->end;
	if (!ENCDB_TRY(pgseal_arithmetic(question->before ? '-' : '+', CellBytes(question->base), CellBytes(distance), &end)))
	{
		if (!IsRefusedWith(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE))
			encdb_refuse();
		end.len = 0;
	}
	KeepEnd(frame, question, end);
	return frame->end;
}

/*
 * What is before or behind an infinite end, of a base and a distance that are finite. There is no cell of infinity to compare the
 * value with: it is infinite, or NaN, if it less itself is NaN, which comes after the distance.
 */
static bool
IsWithinInfinity(const Question *question, Cell *distance)
{
	Cell	   *value = question->value;
	int			order;

	if (question->before && !question->less)
		return true;
	order = Order(value, question->base);
	/* Only NaN comes after infinity; it is its own negative, as no number above the base is, which is above zero */
	if (!question->before && question->less)
		return order <= 0 || Order(value, Negative(value)) != 0;
	return (question->less ? order < 0 : order > 0) && Order(Difference(value, value), distance) > 0;
}

/* What is before or behind an end that is finite, and beyond all numbers of the type. Infinity less itself is NaN, as NaN is */
static bool
IsWithinBeyond(const Question *question, Cell *distance)
{
	if (Order(Difference(question->value, question->value), distance) <= 0)
		return question->before != question->less;
	return (Order(question->value, question->base) < 0) == question->less;
}

static bool
IsWithinNumber(Frame *frame, Numbers numbers, const Question *question, Cell *distance)
{
	Cell	   *end;

	LookAtDistance(frame, numbers, distance);
	/* From infinity to an infinite distance: there is every number, and NaN comes after them */
	if (frame->negative != NULL && Order(question->base, question->before ? distance : frame->negative) == 0)
		return !question->less || Order(question->value, distance) <= 0;
	end = EndOfNumbers(frame, numbers, question, distance);
	if (end != NULL)
		return IsWithinEnd(question->value, end, question->less);
	if (numbers == INTEGERS)
		return question->before != question->less;
	return numbers == FLOATS ? IsWithinInfinity(question, distance) : IsWithinBeyond(question, distance);
}

#ifdef INTERVAL_NOT_FINITE
/* 178 million years lead from a time to none, unless it is infinite */
static bool
IsInfinite(Cell *time)
{
	PgsealBytes result;

	if (ENCDB_TRY(pgseal_add_interval('+', CellBytes(time), (PgsealInterval) {0, 0, INT32_MAX}, &result)))
		return true;
	if (!IsRefusedWith(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE))
		encdb_refuse();
	return false;
}

/* Since PostgreSQL 17 intervals can be infinite. From infinity to an infinite distance there is every time */
static bool
IsWithinForever(const Question *question)
{
	int			order;

	if (question->before != question->less)
		return true;
	order = Order(question->value, question->base);
	if (IsInfinite(question->base))
		return question->less ? order <= 0 : order >= 0;
	return (question->less ? order < 0 : order > 0) && IsInfinite(question->value);
}
#endif

/* PostgreSQL raises that an end is no time */
static bool
IsWithinInterval(Frame *frame, const Question *question, Interval *distance)
{
	Interval	zero = {0, 0, 0};
	PgsealInterval plain = {distance->time, distance->day, distance->month};
	PgsealBytes bytes = {(const uint8_t *) distance, sizeof(Interval)};
	PgsealBytes end;

	if (DatumGetBool(DirectFunctionCall2(interval_lt, IntervalPGetDatum(distance), IntervalPGetDatum(&zero))))
		RefuseDistance();
#ifdef INTERVAL_NOT_FINITE
	if (INTERVAL_NOT_FINITE(distance))
		return IsWithinForever(question);
#endif
	if (!IsKept(frame->distance, bytes))
	{
		Forget(frame);
		frame->distance = Keep(frame, bytes);
	}
	if (!HasEnd(frame, question))
	{
		ENCDB_CALL(pgseal_add_interval(question->before ? '-' : '+', CellBytes(question->base), plain, &end));
		KeepEnd(frame, question, end);
	}
	return IsWithinEnd(question->value, frame->end, question->less);
}

/* In ANALYZE a value is within, for the reason that LIKE matches there (text.c) */
#define IN_RANGE(name, answer) \
	PG_FUNCTION_INFO_V1(encdb_in_range_##name); \
	Datum encdb_in_range_##name(PG_FUNCTION_ARGS) \
	{ \
		Frame	   *frame; \
		MemoryContext caller; \
		Question	question; \
		bool		within; \
		\
		if (unlikely(encdb_in_analyze())) \
			PG_RETURN_BOOL(true); \
		frame = FrameOf(fcinfo); \
		Renew(frame); \
		caller = MemoryContextSwitchTo(frame->scratch); \
		question = (Question) {PG_GETARG_CELL(0), PG_GETARG_CELL(1), PG_GETARG_BOOL(3), PG_GETARG_BOOL(4)}; \
		within = (answer); \
		MemoryContextSwitchTo(caller); \
		MemoryContextReset(frame->scratch); \
		PG_RETURN_BOOL(within); \
	}

IN_RANGE(integer, IsWithinNumber(frame, INTEGERS, &question, PG_GETARG_CELL(2)))
IN_RANGE(float, IsWithinNumber(frame, FLOATS, &question, PG_GETARG_CELL(2)))
IN_RANGE(decimal, IsWithinNumber(frame, DECIMALS, &question, PG_GETARG_CELL(2)))
IN_RANGE(interval, IsWithinInterval(frame, &question, PG_GETARG_INTERVAL_P(2)))
