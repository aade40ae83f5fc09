/*
 * convert.c
 *	  Between plain values and cells: encdb.enc_..._encrypt and encdb.decrypt.
 *
 * The bytes inside a cell are those of the type's send function, those of text
 * in UTF-8 whatever the server's encoding.
 */
#include "encdb.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* What a call site keeps from row to row */
typedef struct Conversion
{
	FmgrInfo	function;		/* send, or receive */
	Oid			ioparam;
	Oid			user;			/* whose default the name is */
	text	   *keyname;
	uint32		key;
	uint64		rollbacks;		/* how many there had been when the key was found */
} Conversion;

/* Of subtransactions: what was taken back may have made the key that a call site found */
static uint64 rollbacks = 0;

static void
EncdbConvertSubXactEnds(SubXactEvent event, SubTransactionId ended, SubTransactionId parent, void *unused)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		rollbacks++;
}

void
encdb_convert_init(void)
{
	RegisterSubXactCallback(EncdbConvertSubXactEnds, NULL);
}

static Conversion *
EncdbConvertStart(FunctionCallInfo fcinfo, Oid plain, bool encrypt)
{
	Conversion *conversion = fcinfo->flinfo->fn_extra;
	Oid			function;
	bool		varlena;

	if (conversion)
		return conversion;
	conversion = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(Conversion));
	if (encrypt)
		getTypeBinaryOutputInfo(plain, &function, &varlena);
	else
		getTypeBinaryInputInfo(plain, &function, &conversion->ioparam);
	fmgr_info_cxt(function, &conversion->function, fcinfo->flinfo->fn_mcxt);
	fcinfo->flinfo->fn_extra = conversion;
	return conversion;
}

static bool
SameText(text *left, text *right)
{
	return VARSIZE_ANY_EXHDR(left) == VARSIZE_ANY_EXHDR(right) &&
		memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left)) == 0;
}

/* Finds the key of this name, for the rows to come too */
static void
TakeKey(FunctionCallInfo fcinfo, Conversion *conversion, text *keyname)
{
	MemoryContext old;
	uint32		key = encdb_find_key(keyname);
	text	   *last = conversion->keyname;

	conversion->keyname = NULL;
	if (last)
		pfree(last);
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	conversion->keyname = (text *) PG_DETOAST_DATUM_COPY(PointerGetDatum(keyname));
	MemoryContextSwitchTo(old);
	conversion->key = key;
	conversion->rollbacks = rollbacks;
}

/*
 * Finds the key of this call, unless it is the last row's. A function's call
 * site lives as long as the transaction: it outlives SET ROLE, and a rollback to
 * a savepoint, after which a key may be in no table any more.
 */
static void
FindKey(FunctionCallInfo fcinfo, Conversion *conversion)
{
	bool		known = conversion->keyname && conversion->rollbacks == rollbacks;
	Oid			user = GetUserId();
	text	   *keyname;

	if (known && PG_NARGS() < 2 && conversion->user == user)
		return;
	keyname = PG_NARGS() < 2 ? encdb_default_keyname() : PG_GETARG_TEXT_PP(1);
	if (!known || !SameText(keyname, conversion->keyname))
		TakeKey(fcinfo, conversion, keyname);
	conversion->user = user;
}

static PgsealBytes
PlainBytes(FunctionCallInfo fcinfo, Conversion *conversion, Oid plain)
{
	if (plain != TEXTOID)
	{
		bytea	   *sent = SendFunctionCall(&conversion->function, PG_GETARG_DATUM(0));

		return CellBytes(sent);
	}
	return encdb_utf8(PG_GETARG_TEXT_PP(0));
}

static Datum
EncdbConvertEncrypt(FunctionCallInfo fcinfo, uint8 type, Oid plain)
{
	Conversion *conversion = EncdbConvertStart(fcinfo, plain, true);
	PgsealBytes bytes;
	PgsealBytes cell;

	FindKey(fcinfo, conversion);
	bytes = PlainBytes(fcinfo, conversion, plain);
	ENCDB_CALL(pgseal_encrypt(conversion->key, type, bytes, &cell));
	return encdb_cell_datum(cell);
}

static Datum
EncdbConvertDecrypt(FunctionCallInfo fcinfo, uint8 type, Oid plain)
{
	Conversion *conversion = EncdbConvertStart(fcinfo, plain, false);
	Cell	   *cell = PG_GETARG_CELL(0);
	PgsealBytes bytes;
	StringInfoData message;

	ENCDB_CALL(pgseal_decrypt(CellBytes(cell), type, &bytes));
	if (plain == TEXTOID)
		PG_RETURN_TEXT_P(encdb_text(bytes));
	initStringInfo(&message);
	appendBinaryStringInfo(&message, (const char *) bytes.data, (int) bytes.len);
	return ReceiveFunctionCall(&conversion->function, &message, conversion->ioparam, -1);
}

#define CONVERSION(name, byte, plain) \
	PG_FUNCTION_INFO_V1(encdb_encrypt_##name); \
	Datum encdb_encrypt_##name(PG_FUNCTION_ARGS) { return EncdbConvertEncrypt(fcinfo, byte, plain); } \
	PG_FUNCTION_INFO_V1(encdb_decrypt_##name); \
	Datum encdb_decrypt_##name(PG_FUNCTION_ARGS) { return EncdbConvertDecrypt(fcinfo, byte, plain); }

CONVERSION(int4, 0x09, INT4OID)
CONVERSION(int8, 0x0a, INT8OID)
CONVERSION(float4, 0x0b, FLOAT4OID)
CONVERSION(float8, 0x0c, FLOAT8OID)
CONVERSION(decimal, 0x0d, NUMERICOID)
CONVERSION(bool, 0x0e, BOOLOID)
CONVERSION(date, 0x0f, DATEOID)
CONVERSION(timestamp, 0x10, TIMESTAMPOID)
CONVERSION(timestamptz, 0x11, TIMESTAMPTZOID)
CONVERSION(uuid, 0x12, UUIDOID)
CONVERSION(bytea, 0x13, BYTEAOID)
CONVERSION(interval, 0x14, INTERVALOID)
CONVERSION(text, TYPE_TEXT, TEXTOID)
