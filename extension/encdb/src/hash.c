/*
 * hash.c
 *	  Hash functions: under the owner's key, equal for equal values whatever their cells. ANALYZE
 *	  is given those of the stored bytes (background.c). Collations under which no text is compared
 *	  are refused here, too: values might be equal that are not alike.
 */
#include "ahead.h"

#include "common/hashfn.h"

static uint64
HashOfBytes(Cell *cell, uint64 seed)
{
	return DatumGetUInt64(hash_any_extended((unsigned char *) VARDATA_ANY(cell),
											VARSIZE_ANY_EXHDR(cell), seed));
}

static uint64
HashArgument(FunctionCallInfo fcinfo, uint64 seed)
{
	Cell	   *cell = PG_GETARG_CELL(0);
	uint64		hash;

	if (unlikely(encdb_in_analyze()))
		hash = HashOfBytes(cell, seed);
	else
	{
		(void) encdb_locale_of(CellBytes(cell), PG_GET_COLLATION());
		if (seed != 0 || !encdb_ahead_hash(cell, &hash))
			ENCDB_CALL(pgseal_hash(CellBytes(cell), seed, &hash));
	}
	PG_FREE_IF_COPY(cell, 0);
	return hash;
}

PG_FUNCTION_INFO_V1(encdb_hash);
Datum
encdb_hash(PG_FUNCTION_ARGS)
{
	/* PostgreSQL wants the low half of what seed 0 gives in the extended function */
	PG_RETURN_INT32((int32) HashArgument(fcinfo, 0));
}

PG_FUNCTION_INFO_V1(encdb_hash_extended);
Datum
encdb_hash_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) HashArgument(fcinfo, (uint64) PG_GETARG_INT64(1)));
}

/* Of det_type, whose equality is that of bytes */
PG_FUNCTION_INFO_V1(encdb_bytes_hash);
Datum
encdb_bytes_hash(PG_FUNCTION_ARGS)
{
	Cell	   *cell = PG_GETARG_CELL(0);

	return hash_any((unsigned char *) VARDATA_ANY(cell), VARSIZE_ANY_EXHDR(cell));
}

PG_FUNCTION_INFO_V1(encdb_bytes_hash_extended);
Datum
encdb_bytes_hash_extended(PG_FUNCTION_ARGS)
{
	Cell	   *cell = PG_GETARG_CELL(0);

	PG_RETURN_INT64((int64) HashOfBytes(cell, (uint64) PG_GETARG_INT64(1)));
}
