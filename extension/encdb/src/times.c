/*
 * times.c
 *	  Functions of encrypted times whose first argument is plain: extract, date_part, date_trunc, AT TIME ZONE.
 *
 * A time zone is found as PostgreSQL finds it, by its abbreviations and its database. The evaluator gets an offset, or the name of
 * a zone with several offsets, whose rules it has itself.
 *
 * AT TIME ZONE calls pg_catalog.timezone, and there are no functions of ours in it: a plain text beside AT TIME ZONE would have two
 * types then. The proxy calls encdb.timezone.
 */
#include "ahead.h"

#include "parser/scansup.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/datetime.h"

/* Names that fit a program, with other steps; those of the database are far shorter */
#define LONGEST_NAME	64

/* Adds the step of AT TIME ZONE to this offset, in seconds east of UTC */
static void
AddOffset(int east, StringInfo steps)
{
	appendStringInfo(steps, "(O%d)", east);
}

/* Finds what a name means that is no name of the database of zones; 0: nothing, 1: an offset, -1: another one at other times */
static int
FindAbbreviation(const char *name, int *east)
{
	char	   *lower = downcase_truncate_identifier(name, strlen(name), false);
	pg_tz	   *zone;
	int			type;
#if PG_VERSION_NUM >= 160000
	DateTimeErrorExtra extra;

	if (DecodeTimezoneAbbrev(0, lower, &type, east, &zone, &extra) != 0)
		return 0;
#else
	type = DecodeTimezoneAbbrev(0, lower, east, &zone);
#endif
	return type == TZ || type == DTZ ? 1 : type == DYNTZ ? -1 : 0;
}

/* Adds the step of AT TIME ZONE; false: the name means no zone, or none that the evaluator can have */
static bool
AddZone(const char *name, StringInfo steps)
{
	int			east;
	int			found = FindAbbreviation(name, &east);
	long int	offset;
	pg_tz	   *zone;

	if (found > 0)
		AddOffset(east, steps);
	if (found != 0)
		return found > 0;
	zone = pg_tzset(name);
	if (zone == NULL)
		return false;
	if (pg_get_timezone_offset(zone, &offset))
	{
		AddOffset((int) offset, steps);
		return true;
	}
	name = pg_get_timezone_name(zone);
	if (strlen(name) > LONGEST_NAME || pg_strncasecmp(name, "posix/", 6) == 0 || pg_strncasecmp(name, "right/", 6) == 0)
		return false;
	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/+-<>,.:") != strlen(name))
		return false;
	appendStringInfo(steps, "(Z%s)", name);
	return true;
}

/* Whether a plan may keep the step: what an abbreviation means is a setting */
bool
encdb_time_step_stays(char kind, text *plain)
{
	char		name[TZ_STRLEN_MAX + 1];
	int			east;

	if (kind != TIME_ZONE)
		return true;
	text_to_cstring_buffer(plain, name, sizeof(name));
	return FindAbbreviation(name, &east) == 0;
}

/* Adds the step of a function with this plain argument; false: it has no form */
bool
encdb_time_step(char kind, text *plain, StringInfo steps)
{
	char		name[TZ_STRLEN_MAX + 1];
	uint8		sign;

	switch (kind)
	{
		case TIME_FIELD:
			sign = pgseal_field_step(CellBytes(plain));
			if (sign != 0)
				appendStringInfoChar(steps, (char) sign);
			return sign != 0;
		case TIME_PART:
			sign = pgseal_field_step(CellBytes(plain));
			if (sign != 0)
				appendStringInfo(steps, "(P%c)", sign);
			return sign != 0;
		case TIME_UNIT:
			sign = pgseal_unit_step(CellBytes(plain));
			if (sign != 0)
				appendStringInfo(steps, "(D%c)", sign);
			return sign != 0;
		default:
			text_to_cstring_buffer(plain, name, sizeof(name));
			return AddZone(name, steps);
	}
}

/* Raises why a step has no form */
static void
Refuse(char kind, text *plain)
{
	char	   *name = text_to_cstring(plain);
	int			east;

	if (kind != TIME_ZONE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unit \"%s\" not recognized for encrypted times", name)));
	if (FindAbbreviation(name, &east) == 0 && pg_tzset(name) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" not recognized", name)));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("time zone \"%s\" is none for encrypted times", name),
			 errhint("Name the zone as the database of time zones does: Europe/Berlin.")));
}

static Datum
EncdbTimesCompute(FunctionCallInfo fcinfo, char kind)
{
	text	   *plain = PG_GETARG_TEXT_PP(0);
	Cell	   *cell = PG_GETARG_CELL(1);
	StringInfoData steps;
	PgsealBytes program;
	PgsealBytes operand;
	PgsealBytes result;
	Datum		computed;
	bool		is_null_ahead;
	int			is_null;

	initStringInfo(&steps);
	appendStringInfoChar(&steps, '$');
	if (!encdb_time_step(kind, plain, &steps))
		Refuse(kind, plain);
	ENCDB_STAND_IN(cell);
	program = (PgsealBytes) {(const uint8_t *) steps.data, steps.len};
	if (encdb_ahead_computed(fcinfo, program, 1, 1, &computed, &is_null_ahead))
	{
		if (is_null_ahead)
			PG_RETURN_NULL();
		return computed;
	}
	operand = CellBytes(cell);
	ENCDB_CALL(pgseal_compute(program, &operand, 1, &result, &is_null));
	/* An infinite date has no month */
	if (is_null)
		PG_RETURN_NULL();
	return encdb_cell_datum(result);
}

#define TIME_FUNCTION(name, kind) \
	PG_FUNCTION_INFO_V1(encdb_##name); \
	Datum encdb_##name(PG_FUNCTION_ARGS) { return EncdbTimesCompute(fcinfo, kind); }

TIME_FUNCTION(extract, TIME_FIELD)
TIME_FUNCTION(date_part, TIME_PART)
TIME_FUNCTION(date_trunc, TIME_UNIT)
TIME_FUNCTION(timezone, TIME_ZONE)
