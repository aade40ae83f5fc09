/*
 * btree.h
 *	  What the files btree*.c share: comparisons that are answered a page at a time.
 */
#ifndef ENCDB_BTREE_H
#define ENCDB_BTREE_H

#include "encdb.h"

#include "storage/bufpage.h"
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#define IndexId RelFileLocator
#else
#include "storage/relfilenode.h"
#define IndexId RelFileNode
#endif

/* The most cells that lie on a page: a cell of 32 bytes or more, its tuple and its line pointer */
#define MAX_CELLS		(BLCKSZ / 32)
#define MAX_PROBE		256

/* The first keys of a page, in the page's order */
typedef struct PageCells
{
	int			ncells;
	uint16		place[MAX_CELLS];	/* where on the page */
	PgsealBytes cells[MAX_CELLS];
	Size		used;			/* by all of them; no more than a page */
	int			nchildren;		/* of an inner page: one before the first cell, and one behind each of its tuples */
	BlockNumber children[MAX_CELLS + 1];
} PageCells;

/* What is compared: a key where it is, with a cell that is on no page */
typedef struct Question
{
	Page		page;
	uint16		place;
	PgsealBytes cell;
	PgsealBytes probe;
	const char *locale;
} Question;

/* Where a page is in its index */
typedef struct PageLinks
{
	IndexId		index;
	BlockNumber block;
	BlockNumber left;
	BlockNumber right;
} PageLinks;

/* A page as it was, and where a probe is on it */
typedef struct Memory
{
	Page		page;
	PageLinks	links;
	uint64		epoch;			/* encdb_epoch; 0: no probe is on it */
	const char *locale;
	int			probe_len;
	uint8		probe[MAX_PROBE];
	PgsealPosition position;
	bool		passed;			/* the probe is known to lie before all that is to the right */
	int			ncells;
	uint16		ordinal[BLCKSZ / 8];	/* by place on the page; 0: none, else one more */
	uint16		start[MAX_CELLS + 1];	/* of a cell in `bytes` */
	uint8		bytes[BLCKSZ];
} Memory;

/* btree.c */
extern int64 encdb_btree_requests;

/* btree_page.c */
extern bool encdb_btree_ends_on(const char *page, const Cell *key);
extern bool encdb_btree_is_leaf(Page page);
extern PageLinks encdb_btree_links(Page page);
extern bool encdb_btree_is_first(const Question *question);
extern bool encdb_btree_cells(const Question *question, PageCells *cells);

/* btree_memory.c */
extern void encdb_btree_remember(Memory *memory, Page page, const PageCells *cells,
								 const PageLinks *links);
extern bool encdb_btree_look(Memory *memory, const Question *question, const PageLinks *links);
extern void encdb_btree_answered(Memory *memory, const Question *question,
								 PgsealPosition position);
extern bool encdb_btree_is_passed(const Memory *memory, const Question *question,
								  const PageLinks *links);
extern bool encdb_btree_knows(const Memory *memory, const Question *question, const PageLinks *links);
extern bool encdb_btree_stands(const Memory *memory, const PgsealFinding *finding,
							   PgsealPosition *position);
extern bool encdb_btree_is_equal(const Memory *memory, const Question *question);
extern bool encdb_btree_recall(const Memory *memory, const Question *question, int *order);

/* btree_descent.c */
extern bool encdb_btree_descend(const Question *question,
								const PageLinks *links, Memory *memory, PgsealPosition *position,
								bool *is_sorted);

#endif							/* ENCDB_BTREE_H */
