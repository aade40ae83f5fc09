/*
 * page.c
 *	  The keys of a B-tree's page, found from one of them.
 *
 * nbtree compares a key where it lies, in a shared buffer that it has pinned
 * and locked for as long as the comparison takes; so the other keys of the page
 * may be read then, and at no other time.
 */
#include "encdb_btree.h"

#include "access/itup.h"
#include "access/nbtree.h"
#include "storage/bufmgr.h"

/* A page whose special space is a B-tree's: other kinds write larger numbers at its end */
static bool
IsKeyPage(Page page)
{
	BTPageOpaque opaque;

	if (PageGetSpecialSize(page) != MAXALIGN(sizeof(BTPageOpaqueData)))
		return false;
	opaque = (BTPageOpaque) PageGetSpecialPointer(page);
	return opaque->btpo_cycleid <= MAX_BT_CYCLE_ID && !P_ISMETA(opaque) && !P_IGNORE(opaque);
}

/* The B-tree's page in shared buffers that a datum lies on, or NULL */
Page
encdb_btree_page(const void *datum)
{
	Size		offset = (const char *) datum - BufferBlocks;
	Page		page;

	if ((const char *) datum < BufferBlocks || offset >= (Size) NBuffers * BLCKSZ)
		return NULL;
	page = (Page) (BufferBlocks + offset - offset % BLCKSZ);
	return IsKeyPage(page) ? page : NULL;
}

bool
encdb_btree_is_leaf(Page page)
{
	BTPageOpaque opaque = (BTPageOpaque) PageGetSpecialPointer(page);

	return P_ISLEAF(opaque);
}

/* Whose page this is, and beside which others */
PageLinks
encdb_btree_links(Page page)
{
	BTPageOpaque opaque = (BTPageOpaque) PageGetSpecialPointer(page);
	PageLinks	links = {.left = opaque->btpo_prev,.right = opaque->btpo_next};
	ForkNumber	fork;

	BufferGetTag((Buffer) (((char *) page - BufferBlocks) / BLCKSZ + 1), &links.index, &fork, &links.block);
	return links;
}

static IndexTuple
Tuple(Page page, OffsetNumber number)
{
	return (IndexTuple) PageGetItem(page, PageGetItemId(page, number));
}

/* The first key of a tuple, or NULL if it has none */
static char *
FirstKey(IndexTuple tuple)
{
	bits8	   *nulls = (bits8 *) ((char *) tuple + sizeof(IndexTupleData));

	if (IndexTupleHasNulls(tuple) && att_isnull(0, nulls))
		return NULL;
	return (char *) tuple + IndexInfoFindDataOffset(tuple->t_info);
}

/* False: a key that is not as it was stored */
static bool
Add(Page page, IndexTuple tuple, PageCells *cells)
{
	char	   *key = FirstKey(tuple);

	if (!key)
		return true;
	if (VARATT_IS_EXTENDED(key) && !VARATT_IS_SHORT(key))
		return false;
	if (cells->ncells == MAX_CELLS)
		return false;
	cells->place[cells->ncells] = (uint16) (key - (char *) page);
	cells->cells[cells->ncells++] = (PgsealBytes) {(uint8_t *) VARDATA_ANY(key),
		VARSIZE_ANY_EXHDR(key)};
	return true;
}

/* Whether what is asked for is the first key of a tuple, or of the high key */
bool
encdb_btree_is_first(const Question *question)
{
	OffsetNumber last = PageGetMaxOffsetNumber(question->page);

	for (OffsetNumber number = FirstOffsetNumber; number <= last; number++)
		if (FirstKey(Tuple(question->page, number)) == (char *) question->page + question->place)
			return true;
	return false;
}

/* The page below a tuple of an inner page; of those without a key only the last before the first key */
static void
AddChild(IndexTuple tuple, PageCells *cells)
{
	bool		has_key = FirstKey(tuple) != NULL;

	if (cells->ncells == 0 && !has_key)
		cells->nchildren = 0;
	if (cells->nchildren == cells->ncells)
		cells->children[cells->nchildren++] = BTreeTupleGetDownLink(tuple);
}

/*
 * All first keys of the page: those of its tuples, then its high key, which is a bound of them. The
 * leftmost tuple of an internal page has no key.
 */
bool
encdb_btree_cells(const Question *question, PageCells *cells)
{
	Page		page = question->page;
	BTPageOpaque opaque = (BTPageOpaque) PageGetSpecialPointer(page);
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	OffsetNumber number = P_FIRSTDATAKEY(opaque);

	cells->ncells = 0;
	cells->nchildren = 0;
	if (!P_ISLEAF(opaque) && number <= last)
	{
		cells->children[cells->nchildren++] = BTreeTupleGetDownLink(Tuple(page, number));
		number = OffsetNumberNext(number);
	}
	for (; number <= last; number++)
	{
		if (!Add(page, Tuple(page, number), cells))
			return false;
		if (!P_ISLEAF(opaque))
			AddChild(Tuple(page, number), cells);
	}
	return P_RIGHTMOST(opaque) || Add(page, Tuple(page, P_HIKEY), cells);
}
