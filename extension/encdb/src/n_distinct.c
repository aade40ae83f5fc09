/*
 * n_distinct.c
 *	  encdb.estimate_distinct(table): counts the distinct values of encrypted columns in a sample, and sets n_distinct.
 *
 * ANALYZE asks the evaluator nothing, so it has to guess (typanalyze.c). The owner of the table may call this function in a
 * session that may compare the cells, and so decides that the numbers may be plain. They are kept in pg_attribute, where no
 * later ANALYZE loses them.
 */
#include "encdb.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include <math.h>

/* The name that 15.0 has for it; later minors of 15 have both */
#if PG_VERSION_NUM < 160000
#define InitMaterializedSRF SetSingleFuncCall
#endif

/* Rows to sample, about. ANALYZE samples 300 times the statistics target, which is 30,000 */
#define SAMPLED_ROWS	100000

/* Above this fraction of distinct values, their number is kept as a fraction of the rows, as ANALYZE does */
#define SCALES			0.1

/* The encrypted columns of a table, whose types ANALYZE treats so; the search path is the user's, so every name is qualified */
#define COLUMNS \
	"SELECT pg_catalog.format('%s.%I', relnamespace::pg_catalog.regnamespace, relname), " \
	"pg_catalog.format('%I', attname), attname, relkind, reltuples::pg_catalog.float8 " \
	"FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON attrelid OPERATOR(pg_catalog.=) c.oid " \
	"JOIN pg_catalog.pg_type AS t ON atttypid OPERATOR(pg_catalog.=) t.oid " \
	"WHERE c.oid OPERATOR(pg_catalog.=) $1 AND attnum OPERATOR(pg_catalog.>) 0 AND NOT attisdropped AND " \
	"typanalyze OPERATOR(pg_catalog.=) 'encdb.typanalyze(pg_catalog.internal)'::pg_catalog.regprocedure ORDER BY attnum"

/* Rows, those that are not NULL, their values, and values that only one row has */
#define COUNTS \
	"SELECT coalesce(pg_catalog.sum(rows), 0)::pg_catalog.float8, " \
	"coalesce(pg_catalog.sum(rows) FILTER (WHERE there), 0)::pg_catalog.float8, " \
	"pg_catalog.count(*) FILTER (WHERE there)::pg_catalog.float8, " \
	"pg_catalog.count(*) FILTER (WHERE there AND rows OPERATOR(pg_catalog.=) 1)::pg_catalog.float8 " \
	"FROM (SELECT pg_catalog.count(*) AS rows, %s IS NOT NULL AS there FROM %s%s TABLESAMPLE pg_catalog.system (%g) GROUP BY %s) AS groups"

typedef struct Column
{
	char	   *table;			/* as it is written in a statement */
	char	   *column;			/* likewise */
	NameData	name;
	bool		inherited;		/* of a partitioned table, whose rows are in others */
	double		fraction;		/* of the pages, which are sampled */
} Column;

typedef struct Counted
{
	double		all;			/* rows */
	double		rows;			/* those that are not NULL */
	double		distinct;
	double		once;			/* values that only one row has */
} Counted;

/* A value that is never NULL */
static Datum
Value(SPITupleTable *rows, uint64 row, int column)
{
	bool		isnull;

	return SPI_getbinval(rows->vals[row], rows->tupdesc, column, &isnull);
}

/* The whole table is read where PostgreSQL does not know how many rows it has */
static double
FractionOf(double rows)
{
	return rows > SAMPLED_ROWS ? SAMPLED_ROWS / rows : 1;
}

static Column
EncdbDistinctColumn(SPITupleTable *rows, uint64 row)
{
	Column		column = {SPI_getvalue(rows->vals[row], rows->tupdesc, 1), SPI_getvalue(rows->vals[row], rows->tupdesc, 2)};

	namestrcpy(&column.name, NameStr(*DatumGetName(Value(rows, row, 3))));
	column.inherited = DatumGetChar(Value(rows, row, 4)) == RELKIND_PARTITIONED_TABLE;
	column.fraction = FractionOf(DatumGetFloat8(Value(rows, row, 5)));
	return column;
}

static Counted
EncdbDistinctCount(const Column *column)
{
	char	   *statement = psprintf(COUNTS, column->column, column->inherited ? "" : "ONLY ", column->table,
									 100 * column->fraction, column->column);

	if (SPI_execute(statement, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "distinct values were not counted");
	return (Counted) {DatumGetFloat8(Value(SPI_tuptable, 0, 1)), DatumGetFloat8(Value(SPI_tuptable, 0, 2)),
		DatumGetFloat8(Value(SPI_tuptable, 0, 3)), DatumGetFloat8(Value(SPI_tuptable, 0, 4))};
}

/*
 * What n_distinct is for a table of which a fraction was counted. The estimator is that of ANALYZE: Duj1 of Haas and Stokes,
 * "Estimating the Number of Classes in a Finite Population", IBM Research Report RJ 10025.
 */
static double
EncdbDistinctEstimate(Counted counted, double fraction)
{
	double		rows = counted.rows / fraction;
	double		all = counted.all / fraction;
	double		estimate = counted.distinct;

	if (counted.once >= counted.rows)
		return -rows / all;
	if (fraction < 1)
		estimate = counted.rows * counted.distinct / (counted.rows - counted.once + counted.once * fraction);
	estimate = Max(counted.distinct, Min(estimate, rows));
	return estimate > SCALES * all ? -estimate / all : rint(estimate);
}

static void
EncdbDistinctRun(const char *statement)
{
	if (SPI_execute(statement, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "\"%s\" was not run", statement);
}

/* Counts a column, sets what is found, and adds it to the function's rows; a column without values stays as it is */
static void
EncdbDistinctSet(const Column *column, const ReturnSetInfo *result)
{
	Counted		counted = EncdbDistinctCount(column);
	Datum		values[2] = {NameGetDatum(&column->name)};
	bool		nulls[2] = {false};
	double		estimate;

	if (counted.rows == 0)
		return;
	estimate = EncdbDistinctEstimate(counted, column->fraction);
	EncdbDistinctRun(psprintf("ALTER TABLE %s ALTER COLUMN %s SET (%s = %g)", column->table, column->column,
							  column->inherited ? "n_distinct_inherited" : "n_distinct", estimate));
	values[1] = Float4GetDatum((float4) estimate);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(encdb_estimate_distinct);
Datum
encdb_estimate_distinct(PG_FUNCTION_ARGS)
{
	Oid			types[] = {OIDOID};
	Datum		values[] = {PG_GETARG_DATUM(0)};
	SPITupleTable *columns;
	uint64		ncolumns;

	InitMaterializedSRF(fcinfo, 0);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(COLUMNS, 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "columns were not found");
	columns = SPI_tuptable;
	ncolumns = SPI_processed;
	for (uint64 i = 0; i < ncolumns; i++)
	{
		Column		column = EncdbDistinctColumn(columns, i);

		EncdbDistinctSet(&column, (ReturnSetInfo *) fcinfo->resultinfo);
		if (i == ncolumns - 1)
			EncdbDistinctRun(psprintf("ANALYZE %s", column.table));
	}
	SPI_finish();
	PG_RETURN_NULL();
}
