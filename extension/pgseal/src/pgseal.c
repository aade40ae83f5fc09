/*
 * The extension pgseal: what the preloaded library knows, as tables.
 *
 * The library exports one function, pgseal_rows(), which is looked up by its name: a server
 * without the library has none, and is one whose cluster is not sealed.  The library raises no
 * error and runs none of the server's code, so no error jumps over its frames.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* The name that 15.0 has for it; later minors of 15 have both. */
#if PG_VERSION_NUM < 160000
#define InitMaterializedSRF SetSingleFuncCall
#endif

PG_MODULE_MAGIC;

/* Gives the rows of a table; see crates/tde/preload/src/tables.rs. */
typedef ssize_t (*RowsFunction) (const char *table, const char **bytes);

/*
 * Copies a text of the library's, which is UTF-8.  A label or a path may have letters that another
 * encoding lacks; a question mark is better than a view that fails.
 */
static char *
text_of(const char *theirs, size_t len)
{
	char	   *text = pnstrdup(theirs, len);

	if (GetDatabaseEncoding() != PG_UTF8)
		for (char *at = text; *at; at++)
			if (IS_HIGHBIT_SET(*at))
				*at = '?';
	return text;
}

/*
 * Reads the field at *at into *value: NULL, or a text in the database's encoding.
 */
static void
next_field(const char **at, const char *end, char **value)
{
	const char *text = *at + 1;
	size_t		len;

	if (**at == 0)
	{
		*value = NULL;
		*at = text;
		return;
	}
	len = strnlen(text, end - text);
	*value = text_of(text, len);
	*at = text + len + 1;
}

/*
 * Adds the rows in these bytes to the result.
 */
static void
put_rows(ReturnSetInfo *result, const char *bytes, ssize_t len)
{
	int			columns = result->setDesc->natts;
	AttInMetadata *input = TupleDescGetAttInMetadata(result->setDesc);
	const char *end = bytes + len;
	char	  **values = palloc0(columns * sizeof(char *));
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "row", ALLOCSET_SMALL_SIZES);

	while (bytes < end)
	{
		MemoryContext old = MemoryContextSwitchTo(row);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < columns && bytes < end; i++)
			next_field(&bytes, end, &values[i]);
		tuplestore_puttuple(result->setResult, BuildTupleFromCStrings(input, values));
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
	}
	MemoryContextDelete(row);
}

static Datum
table(FunctionCallInfo fcinfo, const char *name)
{
	RowsFunction rows = (RowsFunction) dlsym(RTLD_DEFAULT, "pgseal_rows");
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *theirs = NULL;
	char	   *bytes;
	ssize_t		len;

	InitMaterializedSRF(fcinfo, 0);
	if (rows == NULL)
		return (Datum) 0;
	len = rows(name, &theirs);
	if (len < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the library of pgseal in this server does not know \"%s\"", name),
				 errhint("Restart the server with the library that this extension belongs to.")));
	/* Reading the rows may run other code, which may ask again. */
	bytes = MemoryContextAllocHuge(CurrentMemoryContext, len + 1);
	memcpy(bytes, theirs, len);
	put_rows(result, bytes, len);
	pfree(bytes);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(pgseal_status);
Datum
pgseal_status(PG_FUNCTION_ARGS)
{
	return table(fcinfo, "status");
}

PG_FUNCTION_INFO_V1(pgseal_slots);
Datum
pgseal_slots(PG_FUNCTION_ARGS)
{
	return table(fcinfo, "slots");
}

PG_FUNCTION_INFO_V1(pgseal_io);
Datum
pgseal_io(PG_FUNCTION_ARGS)
{
	return table(fcinfo, "io");
}

PG_FUNCTION_INFO_V1(pgseal_receivers);
Datum
pgseal_receivers(PG_FUNCTION_ARGS)
{
	return table(fcinfo, "receivers");
}

PG_FUNCTION_INFO_V1(pgseal_files);
Datum
pgseal_files(PG_FUNCTION_ARGS)
{
	return table(fcinfo, "clear_files");
}
