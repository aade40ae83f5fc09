/*
 * typanalyze.c
 *	  ANALYZE of encrypted columns: how many are NULL and how wide they are.
 *
 * No value, no order and no frequency goes into pg_statistic, and no key is
 * needed. How many distinct values there are is a guess of one in two rows,
 * which encdb.estimate_distinct corrects (n_distinct.c): columns that are
 * encrypted and searched are identifiers more often than not.
 */
#include "encdb.h"

#include "commands/vacuum.h"

#define ASSUMED_DISTINCT	(-0.5)

static void
EncdbTypanalyzeCompute(VacAttrStatsP stats, AnalyzeAttrFetchFunc fetch, int samplerows, double totalrows)
{
	int			nulls = 0;
	double		width = 0;

	for (int row = 0; row < samplerows; row++)
	{
		bool		isnull;
		Datum		value;

		vacuum_delay_point(
#if PG_VERSION_NUM >= 180000
						   true
#endif
			);
		value = fetch(stats, row, &isnull);
		if (isnull)
			nulls++;
		else
			width += VARSIZE_ANY(DatumGetPointer(value));
	}
	if (samplerows == 0)
		return;
	stats->stats_valid = true;
	stats->stanullfrac = (double) nulls / (double) samplerows;
	stats->stawidth = nulls < samplerows ? width / (samplerows - nulls) : 0;
	stats->stadistinct = nulls < samplerows ? ASSUMED_DISTINCT * (1.0 - stats->stanullfrac) : 0;
}

PG_FUNCTION_INFO_V1(encdb_typanalyze);
Datum
encdb_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);
#if PG_VERSION_NUM >= 170000
	int			target = stats->attstattarget < 0 ? default_statistics_target : stats->attstattarget;
#else
	int			target = stats->attr->attstattarget < 0 ? default_statistics_target :
		stats->attr->attstattarget;
#endif

	stats->compute_stats = EncdbTypanalyzeCompute;
	stats->minrows = 300 * target;
	PG_RETURN_BOOL(true);
}
