/*
 * btree_page.c
 *	  The keys of a B-tree's page, found from one of them.
 *
 * nbtree compares a key where it is, in a shared buffer that it has pinned
 * and locked for as long as the comparison takes; so the other keys of the page
 * may be read then, and at no other time.
 */
#include "btree.h"

#include "access/itup.h"
#include "access/nbtree.h"
#include "storage/bufmgr.h"

/* Where the special space begins, and tuples end */
#define END_OF_ITEMS	(BLCKSZ - MAXALIGN(sizeof(BTPageOpaqueData)))

/* What is on a page, and where it ends */
typedef struct PageItem
{
	IndexTuple	tuple;
	char	   *end;
} PageItem;

/*
 * A page whose special space is a B-tree's: other kinds write larger numbers at its end. Where checksums are off, anything may
 * have been written into the rest, so nothing that it says of places and lengths is believed before it was compared with the page.
 */
static bool
IsKeyPage(Page page)
{
	PageHeader	header = (PageHeader) page;
	BTPageOpaque opaque = (BTPageOpaque) (page + END_OF_ITEMS);

	return header->pd_special == END_OF_ITEMS && header->pd_lower >= SizeOfPageHeaderData &&
		header->pd_lower <= header->pd_upper && header->pd_upper <= END_OF_ITEMS &&
		opaque->btpo_cycleid <= MAX_BT_CYCLE_ID && !P_ISMETA(opaque) && !P_IGNORE(opaque);
}

/* The B-tree's page in shared buffers that a datum is on, or NULL */
char *
encdb_btree_page(const void *datum)
{
	Size		offset = (const char *) datum - BufferBlocks;
	Page		page;

	if ((const char *) datum < BufferBlocks || offset >= (Size) NBuffers * BLCKSZ)
		return NULL;
	page = (Page) (BufferBlocks + offset - offset % BLCKSZ);
	return IsKeyPage(page) ? page : NULL;
}

/* How many bytes a key has with its header; 0: it is not as it was stored, or does not lie in its item */
static Size
SizeOfKey(const char *key, const char *end)
{
	Size		room = (Size) (end - key);
	Size		size;

	if (VARATT_IS_SHORT(key))
		size = VARATT_IS_1B_E(key) ? 0 : VARSIZE_1B(key);
	else
		size = room < VARHDRSZ || !VARATT_IS_4B_U(key) || VARSIZE_4B(key) < VARHDRSZ ? 0 : VARSIZE_4B(key);
	return size <= room ? size : 0;
}

/* Whether a key that begins on the page, of whatever column, ends there */
bool
encdb_btree_ends_on(const char *page, const Cell *key)
{
	return SizeOfKey((const char *) key, page + END_OF_ITEMS) > 0;
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

/* False: an item that does not lie on the page */
static bool
ItemOf(Page page, OffsetNumber number, PageItem *item)
{
	ItemId		id = PageGetItemId(page, number);
	unsigned	offset = ItemIdGetOffset(id);
	unsigned	length = ItemIdGetLength(id);

	if (offset < ((PageHeader) page)->pd_upper || offset != MAXALIGN(offset) || length < sizeof(IndexTupleData) ||
		offset + length > END_OF_ITEMS)
		return false;
	item->tuple = (IndexTuple) (page + offset);
	item->end = page + offset + length;
	return true;
}

/* The first key of an item, or NULL if it has none */
static char *
FirstKey(const PageItem *item)
{
	char	   *key = (char *) item->tuple + IndexInfoFindDataOffset(item->tuple->t_info);
	uint8	   *nulls = (uint8 *) item->tuple + sizeof(IndexTupleData);

	if (key >= item->end || (IndexTupleHasNulls(item->tuple) && att_isnull(0, nulls)))
		return NULL;
	return key;
}

/* False: a page whose keys are not to be read, or are more than a page holds */
static bool
EncdbPageAdd(Page page, const PageItem *item, PageCells *cells)
{
	char	   *key = FirstKey(item);

	if (!key)
		return true;
	if (cells->ncells == MAX_CELLS || SizeOfKey(key, item->end) == 0)
		return false;
	cells->place[cells->ncells] = (uint16) (key - (char *) page);
	cells->cells[cells->ncells] = CellBytes(key);
	cells->used += cells->cells[cells->ncells++].len;
	return cells->used <= BLCKSZ;
}

/* Whether what is asked for is the first key of a tuple, or of the high key */
bool
encdb_btree_is_first(const Question *question)
{
	OffsetNumber last = PageGetMaxOffsetNumber(question->page);
	PageItem	item;

	for (OffsetNumber number = FirstOffsetNumber; number <= last; number++)
		if (ItemOf(question->page, number, &item) && FirstKey(&item) == (char *) question->page + question->place)
			return true;
	return false;
}

/* The page below a tuple of an inner page; of those without a key only the last before the first key */
static void
AddChild(const PageItem *item, PageCells *cells)
{
	bool		has_key = FirstKey(item) != NULL;

	if (cells->ncells == 0 && !has_key)
		cells->nchildren = 0;
	if (cells->nchildren == cells->ncells)
		cells->children[cells->nchildren++] = BTreeTupleGetDownLink(item->tuple);
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
	PageItem	item;

	cells->ncells = 0;
	cells->nchildren = 0;
	cells->used = 0;
	if (!P_ISLEAF(opaque) && number <= last)
	{
		if (!ItemOf(page, number, &item))
			return false;
		cells->children[cells->nchildren++] = BTreeTupleGetDownLink(item.tuple);
		number = OffsetNumberNext(number);
	}
	for (; number <= last; number++)
	{
		if (!ItemOf(page, number, &item) || !EncdbPageAdd(page, &item, cells))
			return false;
		if (!P_ISLEAF(opaque))
			AddChild(&item, cells);
	}
	return P_RIGHTMOST(opaque) || (last >= P_HIKEY && ItemOf(page, P_HIKEY, &item) && EncdbPageAdd(page, &item, cells));
}
