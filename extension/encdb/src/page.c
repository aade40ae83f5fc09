/*
 * page.c
 *	  Whether comparisons are answered a page at a time: if the extension encdb_btree is there.
 *
 * Creating or dropping an extension changes pg_proc, whose changes every
 * session hears of; then it looks again.
 */
#include "encdb.h"

#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/* Comparisons of a binary search on a page that is full of small cells, and of looking whether it ended at equal ones */
#define DESCENT		12

EncdbPageCompare encdb_page_compare = NULL;
EncdbPageSearch encdb_page_search;
bool		encdb_page_stale = true;

static void
Stale(Datum arg, int cacheid, uint32 hashvalue)
{
	encdb_page_stale = true;
}

static bool
Search(PgsealBytes probe, const PgsealBytes *cells, size_t ncells, const char *locale,
	   PgsealPosition *position)
{
	return pgseal_search(probe, cells, ncells, locale, position) == 0;
}

static bool
Descend(PgsealBytes probe, const PgsealStart *start, const char *locale, PgsealFinding *findings,
		size_t *nfindings)
{
	return pgseal_descend(probe, start, locale, findings, nfindings) == 0;
}

void
encdb_page_init(void)
{
	encdb_page_search.version = ENCDB_PAGE_COMPARE_VERSION;
	encdb_page_search.epoch = 1;
	encdb_page_search.search = Search;
	encdb_page_search.descend = Descend;
	CacheRegisterSyscacheCallback(PROCOID, Stale, (Datum) 0);
}

/* Whether it is known that the extension is there or not; under a page's lock it is not waited for (keys.c) */
static bool
LookedFor(bool *there)
{
	bool		locked = InterruptHoldoffCount > 0;

	if (locked && !ConditionalLockRelationOid(ExtensionRelationId, AccessShareLock))
		return false;
	*there = OidIsValid(get_extension_oid("encdb_btree", true));
	if (locked)
		UnlockRelationOid(ExtensionRelationId, AccessShareLock);
	return true;
}

void
encdb_page_check(void)
{
	bool		there = false;

	encdb_page_stale = false;
	encdb_page_compare = NULL;
	if (encdb_page_requests != PAGE_REQUESTS_OFF && !LookedFor(&there))
		encdb_page_stale = true;
	if (!there)
		return;
	encdb_page_search.descends = encdb_evaluator == EVALUATOR_ISOLATED;
	encdb_page_search.patience =
		encdb_page_requests == PAGE_REQUESTS_AUTO && encdb_evaluator == EVALUATOR_INLINE ? DESCENT : 0;
	encdb_page_compare = (EncdbPageCompare)
		load_external_function("$libdir/encdb_btree", "encdb_btree_compare", true, NULL);
}
