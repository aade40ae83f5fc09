/*
 * encoding.c
 *	  Between texts of the server and UTF-8, which the library speaks.
 *
 * PostgreSQL's own conversions quote the bytes that they cannot convert, in an
 * error that the server's log keeps. What is converted here may be a value: no
 * error quotes it.
 */
#include "encdb.h"

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* False: some character has no place in the other encoding, or is none */
static bool
EncdbEncodingRecode(PgsealBytes from, int from_encoding, int to_encoding, PgsealBytes *to)
{
	Oid			conversion = FindDefaultConversionProc(from_encoding, to_encoding);
	Size		room = from.len * MAX_CONVERSION_GROWTH + 1;
	uint8	   *bytes;

	if (!OidIsValid(conversion) || !AllocSizeIsValid(room))
		return false;
	bytes = palloc(room);
	if (pg_do_encoding_conversion_buf(conversion, from_encoding, to_encoding, (unsigned char *) from.data,
									  (int) from.len, bytes, (int) room, true) != (int) from.len)
		return false;
	*to = (PgsealBytes) {bytes, strlen((char *) bytes)};
	return true;
}

/* Whether the server's texts are UTF-8, or are taken for it because they say nothing of themselves */
static bool
ServerHasUtf8(void)
{
	return GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII;
}

static bool
IsUtf8(PgsealBytes bytes)
{
	return pg_verify_mbstr(PG_UTF8, (const char *) bytes.data, (int) bytes.len, true);
}

/* A text of the server, as the library wants it. False: it has no form in UTF-8 */
bool
encdb_to_utf8(text *value, PgsealBytes *utf8)
{
	*utf8 = CellBytes(value);
	if (ServerHasUtf8())
		return IsUtf8(*utf8);
	return EncdbEncodingRecode(*utf8, GetDatabaseEncoding(), PG_UTF8, utf8);
}

PgsealBytes
encdb_utf8(text *value)
{
	PgsealBytes utf8;

	if (!encdb_to_utf8(value, &utf8))
		ereport(ERROR,
				(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
				 errmsg("the text is not valid in UTF-8, in which encrypted texts are kept")));
	return utf8;
}

/* A text of the library, as the server wants it */
text *
encdb_text(PgsealBytes utf8)
{
	PgsealBytes own = utf8;

	if (!(ServerHasUtf8() ? IsUtf8(utf8) : EncdbEncodingRecode(utf8, PG_UTF8, GetDatabaseEncoding(), &own)))
		ereport(ERROR,
				(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
				 errmsg("the value holds a character that the encoding of the database does not have")));
	return cstring_to_text_with_len((const char *) own.data, (int) own.len);
}
