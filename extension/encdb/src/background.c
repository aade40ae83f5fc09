/*
 * background.c
 *	  Comparisons that no client asked for, when no key is at hand.
 *
 * 1. Lazy VACUUM compares in one place only: nbtree's page deletion looks for
 *	  the parent of an empty page by that page's high key, and makes do with any
 *	  page at or to the left of it on the parent's level, from where it goes
 *	  right. So "the key on the page is greater" is a right answer, if a slow
 *	  one: it leads to the leftmost page. On a descending key that is "less".
 *	  An array, a record or a range does not tell its elements' comparison for
 *	  which key it is asked: where all indexes of the table are ascending B-trees,
 *	  "greater" is right for every one, and nobody else can have asked.
 * 2. ANALYZE compares and hashes only for extended statistics and for what
 *	  indexes are on. Those get the order and the hash of the stored bytes, with
 *	  a key or without, so that the catalogs never hold values in their own
 *	  order. What an index's expression computes is stood for by an operand:
 *	  typanalyze.c counts NULLs and widths, and asks for nothing else. Who asks
 *	  from inside of it is no such asker (analyze.c).
 * 3. Everything else is refused: a wrong answer would end up in an index.
 */
#include "encdb.h"

#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/skey.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* The order of the stored bytes */
int
encdb_order_of_bytes(Cell *left, Cell *right)
{
	size_t		left_len = VARSIZE_ANY_EXHDR(left);
	size_t		right_len = VARSIZE_ANY_EXHDR(right);
	int			order = memcmp(VARDATA_ANY(left), VARDATA_ANY(right), Min(left_len, right_len));

	if (order != 0)
		return order;
	return (left_len > right_len) - (left_len < right_len);
}

/*
 * The scan key that nbtree compares by, or NULL. A support function is not told of it, but who compares a key where it is on a
 * B-tree's page, in shared buffers, is nbtree, which calls by the FmgrInfo inside the scan key; or the comparison of an array, a
 * record or a range there, which calls by the one inside a type cache's entry, where no argument follows.
 */
static ScanKey
KeyOf(FunctionCallInfo fcinfo)
{
	ScanKey		key;

	if (!fcinfo->flinfo || !encdb_btree_page(DatumGetPointer(PG_GETARG_DATUM(0))))
		return NULL;
	key = (ScanKey) ((char *) fcinfo->flinfo - offsetof(ScanKeyData, sk_func));
	return key->sk_argument == PG_GETARG_DATUM(1) ? key : NULL;
}

static bool
AscendingBtree(Oid oid)
{
	/* VACUUM holds locks on the table and its indexes */
	Relation	index = index_open(oid, NoLock);
	bool		ascending = index->rd_rel->relam == BTREE_AM_OID;

	for (int i = 0; ascending && i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		ascending = (index->rd_indoption[i] & INDOPTION_DESC) == 0;
	index_close(index, NoLock);
	return ascending;
}

/* Whether all indexes of the table that is being vacuumed are such */
static bool
OnlyAscendingBtrees(void)
{
	PgBackendStatus *status = IsParallelWorker() ? encdb_leader_status() : MyBEEntry;
	Relation	table;
	List	   *indexes;
	ListCell   *index;
	bool		ascending = true;

	if (!status || status->st_progress_command != PROGRESS_COMMAND_VACUUM)
		return false;
	table = table_open(status->st_progress_command_target, NoLock);
	indexes = RelationGetIndexList(table);
	foreach(index, indexes)
		ascending = ascending && AscendingBtree(lfirst_oid(index));
	list_free(indexes);
	table_close(table, NoLock);
	return ascending;
}

/* What page deletion is told of a key on a page, if this is page deletion */
bool
encdb_order_in_vacuum(FunctionCallInfo fcinfo, int *order)
{
	ScanKey		key;

	if ((MyProc->statusFlags & PROC_IN_VACUUM) == 0)
		return false;
	key = KeyOf(fcinfo);
	*order = key && (key->sk_flags & SK_BT_DESC) ? -1 : 1;
	return key || OnlyAscendingBtrees();
}
