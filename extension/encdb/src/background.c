/*
 * background.c
 *	  Comparisons that no client asked for, when no key is at hand.
 *
 * 1. Lazy VACUUM compares in one place only: nbtree's page deletion looks for
 *	  the parent of an empty page by that page's high key, and makes do with any
 *	  page at or to the left of it on the parent's level, from where it goes
 *	  right. So "the key on the page is greater" is a right answer, if a slow
 *	  one: it leads to the leftmost page. On a descending key that is "less".
 * 2. ANALYZE compares and hashes only for extended statistics and for what
 *	  indexes are on. Those get the order and the hash of the stored bytes, with
 *	  a key or without, so that the catalogs never hold values in their own
 *	  order. What an index's expression computes is stood for by an operand:
 *	  typanalyze.c counts NULLs and widths, and asks for nothing else.
 * 3. Everything else is refused: a wrong answer would end up in an index.
 */
#include "encdb.h"

#include "access/nbtree.h"
#include "access/skey.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/proc.h"
#include "utils/backend_status.h"

/* Whether this backend is in ANALYZE */
bool
encdb_in_analyze(void)
{
	return MyBEEntry && MyBEEntry->st_progress_command == PROGRESS_COMMAND_ANALYZE;
}

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
 * The scan key that nbtree compares by, or NULL. It calls by the FmgrInfo
 * inside the key, which a support function is not told otherwise.
 */
static ScanKey
KeyOf(FunctionCallInfo fcinfo)
{
	ScanKey		key;

	if (!fcinfo->flinfo)
		return NULL;
	key = (ScanKey) ((char *) fcinfo->flinfo - offsetof(ScanKeyData, sk_func));
	return key->sk_argument == PG_GETARG_DATUM(1) ? key : NULL;
}

/* What page deletion is told of a key on a page, if this is page deletion */
bool
encdb_order_in_vacuum(FunctionCallInfo fcinfo, int *order)
{
	ScanKey		key;

	if ((MyProc->statusFlags & PROC_IN_VACUUM) == 0)
		return false;
	key = KeyOf(fcinfo);
	if (!key)
		return false;
	*order = (key->sk_flags & SK_BT_DESC) ? -1 : 1;
	return true;
}
