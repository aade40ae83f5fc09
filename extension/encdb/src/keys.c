/*
 * keys.c
 *	  The wrapped data keys in encdb.data_key: handed to the evaluator, found by name, made.
 *
 * A wrapped key is of no use without its owner's master key, which only the
 * evaluator is given. The table is read and written here whatever the
 * session's user may do with it, and by no reading of a serializable
 * transaction: who makes a key conflicts with nobody but who makes it too.
 */
#include "encdb.h"
#include "row.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Of a key name, in UTF-8: five names of PostgreSQL's and what is between them fit, in any encoding */
#define MOST_NAME_BYTES		1024

/* Columns of encdb.data_key */
enum
{
	DATA_KEY_NAME = 1,
	DATA_KEY_ID,
	DATA_KEY_WRAPPED = 4
};

/*
 * Opens encdb.data_key. An index compares while it holds a page's lock: a wait
 * there could not be cancelled, and a deadlock would not be seen.
 */
static Relation
OpenKeys(void)
{
	Oid			schema = get_namespace_oid("encdb", false);
	Oid			table = get_relname_relid("data_key", schema);

	if (InterruptHoldoffCount == 0)
		return table_open(table, AccessShareLock);
	if (!ConditionalLockRelationOid(table, AccessShareLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("data keys are being changed: run the statement again")));
	return table_open(table, NoLock);
}

/* By what rows are seen: SnapshotSelf leaves no predicate locks, and a parallel operation sees what its leader saw */
static Snapshot
SnapshotOfKeys(void)
{
	if (IsolationIsSerializable())
		return SnapshotSelf;
	return IsInParallelMode() ? GetTransactionSnapshot() : GetLatestSnapshot();
}

/* Calls `take` for each row that is visible now; it returns false to end */
static void
ForEachRow(bool (*take) (HeapTuple row, TupleDesc columns, void *argument), void *argument)
{
	Relation	relation = OpenKeys();
	Snapshot	snapshot = SnapshotOfKeys();
	TableScanDesc scan;
	HeapTuple	row;

	if (IsMVCCSnapshot(snapshot))
		snapshot = RegisterSnapshot(snapshot);
#if PG_VERSION_NUM >= 190000
	scan = table_beginscan(relation, snapshot, 0, NULL, SO_NONE);
#else
	scan = table_beginscan(relation, snapshot, 0, NULL);
#endif
	while ((row = heap_getnext(scan, ForwardScanDirection)) != NULL)
		if (!take(row, RelationGetDescr(relation), argument))
			break;
	table_endscan(scan);
	if (IsMVCCSnapshot(snapshot))
		UnregisterSnapshot(snapshot);
	table_close(relation, AccessShareLock);
}

typedef struct Rows
{
	PgsealKeyRow *rows;
	int			nrows;
	int			allocated;
} Rows;

static PgsealBytes
EncdbKeysWrapped(HeapTuple row, TupleDesc columns)
{
	bool		isnull;
	Datum		value = EncdbRowColumn(row, DATA_KEY_WRAPPED, columns, &isnull);
	struct varlena *copy = PG_DETOAST_DATUM_COPY(value);

	return CellBytes(copy);
}

static bool
TakeWrapped(HeapTuple row, TupleDesc columns, void *argument)
{
	Rows	   *rows = argument;
	bool		isnull;
	text	   *name = DatumGetTextPCopy(EncdbRowColumn(row, DATA_KEY_NAME, columns, &isnull));
	PgsealBytes utf8;

	/* Anybody may add rows: none of them keeps the others from being used */
	if (!encdb_to_utf8(name, &utf8))
		return true;
	if (rows->nrows == rows->allocated)
	{
		rows->allocated *= 2;
		rows->rows = repalloc(rows->rows, rows->allocated * sizeof(PgsealKeyRow));
	}
	rows->rows[rows->nrows++] = (PgsealKeyRow) {utf8, EncdbKeysWrapped(row, columns)};
	return true;
}

/*
 * Hands all wrapped keys to the evaluator, which takes those of open sessions.
 * False: refused, because there is none.
 */
bool
encdb_load_keys(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "encdb keys",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Rows		rows = {palloc(16 * sizeof(PgsealKeyRow)), 0, 16};
	bool		taken;

	ForEachRow(TakeWrapped, &rows);
	taken = pgseal_load_keys(rows.rows, rows.nrows) == 0;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return taken;
}

typedef struct Wanted
{
	text	   *keyname;
	bool		found;
	uint32		id;
} Wanted;

static bool
TakeNamed(HeapTuple row, TupleDesc columns, void *argument)
{
	Wanted	   *wanted = argument;
	bool		isnull;
	Datum		name = EncdbRowColumn(row, DATA_KEY_NAME, columns, &isnull);

	if (!DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, name,
											  PointerGetDatum(wanted->keyname))))
		return true;
	wanted->found = true;
	wanted->id = (uint32) DatumGetInt64(EncdbRowColumn(row, DATA_KEY_ID, columns, &isnull));
	return false;
}

/* The key that has this name */
uint32
encdb_find_key(text *keyname)
{
	Wanted		wanted = {keyname};

	ForEachRow(TakeNamed, &wanted);
	if (!wanted.found)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no data key \"%s\"", text_to_cstring(keyname)),
				 errhint("Make it with encdb.dek_generate.")));
	return wanted.id;
}

/* The name of the key for whatever a user has in this database */
text *
encdb_default_keyname(void)
{
	return cstring_to_text(psprintf("|%s|%s|", GetUserNameFromId(GetUserId(), false),
									get_database_name(MyDatabaseId)));
}

/*
 * Runs an INSERT into one of the extension's tables, whatever the session's user
 * may do with it; returns how many rows it made. The search path is still that
 * user's: every name in the statement, operators too, must be qualified.
 */
static uint64
EncdbKeysInsert(const char *statement, int nvalues, Oid *types, Datum *values)
{
	Oid			user;
	int			context;
	uint64		rows;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(statement, nvalues, types, values, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "a row of the schema encdb was not inserted");
	rows = SPI_processed;
	SPI_finish();
	SetUserIdAndSecContext(user, context);
	return rows;
}

/*
 * A name that a key may have, in UTF-8. Names that begin with "|user|" are that
 * user's: nobody else takes them first.
 */
static PgsealBytes
CheckName(text *keyname)
{
	const char *own = psprintf("|%s|", GetUserNameFromId(GetUserId(), false));
	PgsealBytes utf8 = encdb_utf8(keyname);

	if (utf8.len > MOST_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("a key name has at most %d bytes in UTF-8", MOST_NAME_BYTES)));
	if (superuser() || VARSIZE_ANY_EXHDR(keyname) == 0 || *VARDATA_ANY(keyname) != '|')
		return utf8;
	if (VARSIZE_ANY_EXHDR(keyname) < strlen(own) ||
		memcmp(VARDATA_ANY(keyname), own, strlen(own)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the key name \"%s\" is another user's", text_to_cstring(keyname)),
				 errhint("Names of yours begin with \"%s\".", own)));
	return utf8;
}

/* Keeps a wrapped key, hands it to the evaluator, and returns its number */
static int64
EncdbKeysKeep(text *keyname, PgsealBytes name, PgsealBytes wrapped)
{
	PgsealKeyRow row = {name};
	uint32		id;
	int			deterministic;
	Oid			types[] = {TEXTOID, INT8OID, BOOLOID, BYTEAOID};
	Datum		values[] = {PointerGetDatum(keyname), 0, 0, encdb_cell_datum(wrapped)};

	if (pgseal_wrapped_key(wrapped, &id, &deterministic) != 0)
		encdb_refuse();
	values[1] = Int64GetDatum(id);
	values[2] = BoolGetDatum(deterministic != 0);
	if (EncdbKeysInsert("INSERT INTO encdb.data_key (keyname, key_id, deterministic, wrapped) "
						"VALUES ($1, $2, $3, $4) ON CONFLICT (keyname) DO NOTHING", 4, types, values) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("there is a data key \"%s\" already, of this owner or of another",
						text_to_cstring(keyname)),
				 errhint("Give the new key another name, and name it wherever it is to seal.")));
	CommandCounterIncrement();
	/*
	 * This one alone: the session has those that it needed, and all rows for each new one would be without an end. Without a session
	 * there is nobody to hand it to, and a later one is given it.
	 */
	row.wrapped = CellBytes(DatumGetPointer(values[3]));
	if (Attached())
		(void) pgseal_add_key(&row);
	return id;
}

/* encdb.generate_key(keyname, deterministic, group): the evaluator makes the key */
PG_FUNCTION_INFO_V1(encdb_generate_key);
Datum
encdb_generate_key(PG_FUNCTION_ARGS)
{
	text	   *keyname = PG_GETARG_TEXT_PP(0);
	PgsealBytes name = CheckName(keyname);
	PgsealNewKey wanted = {name, (uint32) PG_GETARG_INT32(2), PG_GETARG_BOOL(1)};
	PgsealBytes wrapped;

	ENCDB_CALL(pgseal_generate_key(&wanted, &wrapped));
	PG_RETURN_INT64(EncdbKeysKeep(keyname, name, wrapped));
}

/* encdb.dek_insert(keyname, wrapped): the client has made it */
PG_FUNCTION_INFO_V1(encdb_dek_insert);
Datum
encdb_dek_insert(PG_FUNCTION_ARGS)
{
	text	   *keyname = PG_GETARG_TEXT_PP(0);
	bytea	   *wrapped = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_INT64(EncdbKeysKeep(keyname, CheckName(keyname), CellBytes(wrapped)));
}

PG_FUNCTION_INFO_V1(encdb_keyname);
Datum
encdb_keyname(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(encdb_default_keyname());
}

/* encdb.grant_insert(signed): keeps a grant as its owner signed it, and returns its serial */
PG_FUNCTION_INFO_V1(encdb_grant_insert);
Datum
encdb_grant_insert(PG_FUNCTION_ARGS)
{
	bytea	   *grant = PG_GETARG_BYTEA_PP(0);
	PgsealGrant terms;
	Oid			types[] = {BYTEAOID, BYTEAOID, BYTEAOID, BYTEAOID};
	Datum		values[4];

	if (pgseal_grant(CellBytes(grant), &terms) != 0)
		encdb_refuse();
	values[0] = encdb_cell_datum((PgsealBytes) {terms.serial, sizeof(terms.serial)});
	values[1] = encdb_cell_datum((PgsealBytes) {terms.owner, sizeof(terms.owner)});
	values[2] = encdb_cell_datum((PgsealBytes) {terms.subject, terms.subject_len});
	values[3] = PointerGetDatum(grant);
	(void) EncdbKeysInsert("INSERT INTO encdb.grant_ (serial, owner, subject, signed) VALUES ($1, $2, $3, $4)",
		   4, types, values);
	return values[0];
}

/* encdb.revocation_insert(signed): keeps an owner's list in place of an earlier one */
PG_FUNCTION_INFO_V1(encdb_revocation_insert);
Datum
encdb_revocation_insert(PG_FUNCTION_ARGS)
{
	bytea	   *list = PG_GETARG_BYTEA_PP(0);
	uint8		owner[32];
	int64		sequence;
	Oid			types[] = {BYTEAOID, INT8OID, BYTEAOID};
	Datum		values[3];

	if (pgseal_revocations(CellBytes(list), owner, &sequence) != 0)
		encdb_refuse();
	values[0] = encdb_cell_datum((PgsealBytes) {owner, sizeof(owner)});
	values[1] = Int64GetDatum(sequence);
	values[2] = PointerGetDatum(list);
	(void) EncdbKeysInsert("INSERT INTO encdb.revocation (owner, sequence, signed) VALUES ($1, $2, $3) "
		   "ON CONFLICT (owner) DO UPDATE SET sequence = excluded.sequence, signed = excluded.signed, "
		   "created = excluded.created "
		   "WHERE revocation.sequence OPERATOR(pg_catalog.<) excluded.sequence",
		   3, types, values);
	PG_RETURN_INT64(sequence);
}
