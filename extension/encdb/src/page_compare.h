/*
 * page_compare.h
 *	  Between encdb and encdb_btree: comparisons that are answered a page at a time.
 */
#ifndef ENCDB_PAGE_COMPARE_H
#define ENCDB_PAGE_COMPARE_H

#include "pgext.h"

/* A change of either side's meaning is a new number */
#define ENCDB_PAGE_COMPARE_VERSION	2

/* What encdb gives; grows whenever what was answered may hold no longer */
typedef struct EncdbPageSearch
{
	int			version;
	uint64		epoch;
	/* Comparisons with one page before it is worth a request: a descent is no more, a scan is many */
	int			patience;
	/* Whether a request is dear enough to hand over upper pages once, and to ask for all of an index together */
	bool		keeps;
	/* These are false if refused */
	bool		(*search) (PgsealBytes probe, const PgsealBytes *cells, size_t ncells,
						   const char *locale, PgsealPosition *position);
	bool		(*keep) (uint32 page, const PgsealBytes *cells, size_t ncells);
	bool		(*search_kept) (PgsealBytes probe, const uint32 *pages, size_t npages,
								const char *locale, PgsealPosition *positions);
} EncdbPageSearch;

/*
 * What encdb_btree gives, as encdb_btree_compare. False: the first is no key
 * of a page, or the search was refused.
 */
typedef bool (*EncdbPageCompare) (const EncdbPageSearch *search, struct varlena *left,
								  struct varlena *right, const char *locale, int *order);

#endif							/* ENCDB_PAGE_COMPARE_H */
