/*
 * cell.c
 *	  Input and output of the types, and the ways between those of one type of cells and those of
 *	  any: the form of a cell is checked, never its content.
 */
#include "encdb.h"

#include <ctype.h>

#include "libpq/pqformat.h"
#include "utils/builtins.h"

/* What rnd_type takes, and what det_type takes: no bytes of a type */
#define TYPE_ANY			0
#define TYPE_DETERMINISTIC	0xff

/* The third byte of cells that differ where their values are equal; version 0 does not tell */
#define FORM_RANDOMISED		0x11
#define FORM_DERIVED		0x13

/* Raise what the form of these bytes breaks */
static void
CheckForm(Cell *cell, uint8 type)
{
	uint8		form;

	if (pgseal_check(CellBytes(cell), type == TYPE_DETERMINISTIC ? TYPE_ANY : type) != 0)
		encdb_refuse();
	if (type != TYPE_DETERMINISTIC)
		return;
	form = CellForm(cell);
	if (form == FORM_RANDOMISED || form == FORM_DERIVED)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("det_type holds cells that were sealed under a deterministic key only"),
				 errhint("Make such a key with encdb.dek_generate and {\"flags\": \"DET\"}.")));
}

static Datum
CellIn(FunctionCallInfo fcinfo, uint8 type)
{
	char	   *text = PG_GETARG_CSTRING(0);
	Cell	   *cell;

	/* bytea's escape form would take any text for a cell */
	if (text[0] != '\\' || text[1] != 'x')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a value of an encrypted type is a cell in hexadecimal, after \"\\x\""),
				 errhint("The client seals values; a literal in a statement must be a parameter.")));
	cell = (Cell *) DatumGetPointer(DirectFunctionCall1(byteain, CStringGetDatum(text)));
	CheckForm(cell, type);
	PG_RETURN_POINTER(cell);
}

static Datum
CellRecv(FunctionCallInfo fcinfo, uint8 type)
{
	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	int			len = message->len - message->cursor;
	Cell	   *cell = palloc(VARHDRSZ + len);

	SET_VARSIZE(cell, VARHDRSZ + len);
	pq_copymsgbytes(message, VARDATA(cell), len);
	CheckForm(cell, type);
	PG_RETURN_POINTER(cell);
}

static Datum
CellAs(FunctionCallInfo fcinfo, uint8 type)
{
	CheckForm(PG_GETARG_CELL(0), type);
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/* Functions for each type, because the type byte must be the type's */
#define CELL_TYPE(name, byte) \
	PG_FUNCTION_INFO_V1(encdb_##name##_in); \
	Datum encdb_##name##_in(PG_FUNCTION_ARGS) { return CellIn(fcinfo, byte); } \
	PG_FUNCTION_INFO_V1(encdb_##name##_recv); \
	Datum encdb_##name##_recv(PG_FUNCTION_ARGS) { return CellRecv(fcinfo, byte); } \
	PG_FUNCTION_INFO_V1(encdb_as_##name); \
	Datum encdb_as_##name(PG_FUNCTION_ARGS) { return CellAs(fcinfo, byte); }

CELL_TYPE(int4, 0x09)
CELL_TYPE(int8, 0x0a)
CELL_TYPE(float4, 0x0b)
CELL_TYPE(float8, 0x0c)
CELL_TYPE(decimal, 0x0d)
CELL_TYPE(bool, 0x0e)
CELL_TYPE(date, 0x0f)
CELL_TYPE(timestamp, 0x10)
CELL_TYPE(timestamptz, 0x11)
CELL_TYPE(uuid, 0x12)
CELL_TYPE(bytea, 0x13)
CELL_TYPE(interval, 0x14)
CELL_TYPE(text, TYPE_TEXT)
CELL_TYPE(any, TYPE_ANY)
CELL_TYPE(deterministic, TYPE_DETERMINISTIC)

PG_FUNCTION_INFO_V1(encdb_out);
Datum
encdb_out(PG_FUNCTION_ARGS)
{
	bytea	   *cell = PG_GETARG_BYTEA_PP(0);
	int			len = VARSIZE_ANY_EXHDR(cell);
	char	   *text = palloc(2 + 2 * (Size) len + 1);

	/* Whatever bytea_output says: the input takes hexadecimal only */
	text[0] = '\\';
	text[1] = 'x';
	text[2 + hex_encode(VARDATA_ANY(cell), len, text + 2)] = '\0';
	PG_RETURN_CSTRING(text);
}

/* Whether a text is a cell as encdb_out() writes it: somebody meant another type than text */
bool
encdb_is_written_cell(PgsealBytes text)
{
	PgsealBytes cell;
	uint8	   *bytes;

	if (text.len < 2 || memcmp(text.data, "\\x", 2) != 0 || text.len % 2 != 0)
		return false;
	for (size_t i = 2; i < text.len; i++)
		if (!isxdigit(text.data[i]))
			return false;
	bytes = palloc(text.len);
	cell = (PgsealBytes) {bytes, hex_decode((const char *) text.data + 2, text.len - 2, (char *) bytes)};
	return pgseal_check(cell, TYPE_ANY) == 0;
}

PG_FUNCTION_INFO_V1(encdb_send);
Datum
encdb_send(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(PG_GETARG_BYTEA_P_COPY(0));
}

/* A cell that the library made, as a value */
Datum
encdb_cell_datum(PgsealBytes bytes)
{
	Cell	   *cell = palloc(VARHDRSZ + bytes.len);

	SET_VARSIZE(cell, VARHDRSZ + bytes.len);
	memcpy(VARDATA(cell), bytes.data, bytes.len);
	return PointerGetDatum(cell);
}
