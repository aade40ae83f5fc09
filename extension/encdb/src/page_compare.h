/*
 * page_compare.h
 *	  Between encdb and encdb_btree: comparisons that are answered a page at a time.
 */
#ifndef ENCDB_PAGE_COMPARE_H
#define ENCDB_PAGE_COMPARE_H

#include "pgext.h"

/* A change of either side's meaning is a new number */
#define ENCDB_PAGE_COMPARE_VERSION	3

/* What encdb gives; grows whenever what was answered may hold no longer */
typedef struct EncdbPageSearch
{
	int			version;
	uint64		epoch;
	/* Comparisons with one page before it is worth a request: a descent is no more, a scan is many */
	int			patience;
	/* Whether a request is dear, and the evaluator keeps pages: then one is for a whole descent */
	bool		descends;
	/* These are false if refused */
	bool		(*search) (PgsealBytes probe, const PgsealBytes *cells, size_t ncells,
						   const char *locale, PgsealPosition *position);
	bool		(*descend) (PgsealBytes probe, const PgsealStart *start, const char *locale,
							PgsealFinding *findings, size_t *nfindings);
} EncdbPageSearch;

/*
 * What encdb_btree gives, as encdb_btree_compare. False: the first is no key
 * of a page, or the search was refused.
 */
typedef bool (*EncdbPageCompare) (const EncdbPageSearch *search, struct varlena *left,
								  struct varlena *right, const char *locale, int *order);

#endif							/* ENCDB_PAGE_COMPARE_H */
