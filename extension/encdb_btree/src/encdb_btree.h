/*
 * encdb_btree.h
 *	  What the files share.
 */
#ifndef ENCDB_BTREE_H
#define ENCDB_BTREE_H

#include "postgres.h"

#include "page_compare.h"
#include "storage/bufpage.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* The most cells that lie on a page: a cell of 32 bytes or more, its tuple and its line pointer */
#define MAX_CELLS		(BLCKSZ / 32)

/* The first keys of a page, in the page's order */
typedef struct PageCells
{
	int			ncells;
	uint16		place[MAX_CELLS];	/* where on the page */
	PgsealBytes cells[MAX_CELLS];
} PageCells;

/* page.c */
extern Page encdb_btree_page(const void *datum);
extern bool encdb_btree_cells(Page page, const void *datum, PageCells *cells);

#endif							/* ENCDB_BTREE_H */
