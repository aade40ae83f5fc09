/*
 * damaged_page.c
 *	  What reads a B-tree's page, on pages that are not as they were written: built with AddressSanitizer by test_damaged.py.
 *
 * The page is the only shared buffer, and a read beyond it ends the program. Prints how many pages were read, and how many of
 * those were refused.
 */
#include "btree.h"

#include "access/itup.h"
#include "access/nbtree.h"
#include "storage/bufmgr.h"

/* The C library's own: no server is linked */
#undef printf

#define KEYS		40
#define KEY_SIZE	48
#define LONG_KEY	2000

char	   *BufferBlocks;
int			NBuffers = 1;
uint64		encdb_epoch = 1;

static int	pages = 0;
static int	refused = 0;
static Memory memory;

/* btree_page.c asks which page a buffer holds */
void
BufferGetTag(Buffer buffer, IndexId *index, ForkNumber *fork, BlockNumber *block)
{
	memset(index, 0, sizeof(*index));
	*fork = MAIN_FORKNUM;
	*block = 1;
}

static void
Put(Page page, OffsetNumber number, int size, const char *cell, bool has_long_header)
{
	PageHeader	header = (PageHeader) page;
	int			length = MAXALIGN(sizeof(IndexTupleData) + size);
	IndexTuple	tuple;
	char	   *key;

	header->pd_upper -= length;
	header->pd_lower += sizeof(ItemIdData);
	ItemIdSetNormal(PageGetItemId(page, number), header->pd_upper, length);
	tuple = (IndexTuple) (page + header->pd_upper);
	tuple->t_info = length;
	key = (char *) tuple + sizeof(IndexTupleData);
	if (has_long_header)
		SET_VARSIZE(key, size);
	else
		SET_VARSIZE_SHORT(key, size);
	memcpy(VARDATA_ANY(key), cell, VARSIZE_ANY_EXHDR(key));
}

static void
Fill(Page page, int level)
{
	PageHeader	header = (PageHeader) page;
	BTPageOpaque opaque;
	char		cell[LONG_KEY];

	memset(page, 0, BLCKSZ);
	header->pd_lower = SizeOfPageHeaderData;
	header->pd_special = header->pd_upper = BLCKSZ - MAXALIGN(sizeof(BTPageOpaqueData));
	PageSetPageSizeAndVersion(page, BLCKSZ, PG_PAGE_LAYOUT_VERSION);
	opaque = (BTPageOpaque) PageGetSpecialPointer(page);
	opaque->btpo_flags = level == 0 ? BTP_LEAF : 0;
	opaque->btpo_level = level;
	opaque->btpo_next = 2;
	for (int i = 0; i < KEYS; i++)
	{
		memset(cell, 'a' + i, sizeof(cell));
		Put(page, FirstOffsetNumber + i, i == 7 ? LONG_KEY : KEY_SIZE, cell, i == 7);
	}
}

/* A comparison with what a line pointer leads to, as nbtree makes one */
static void
Compare(Page page, OffsetNumber number)
{
	static const uint8 probe[] = "a probe";
	unsigned	offset = ItemIdGetOffset(PageGetItemId(page, number));
	char	   *key = page + offset + sizeof(IndexTupleData);
	Question	question = {.page = page,.place = (uint16) (key - page),.probe = {probe, sizeof(probe)}};
	PageLinks	links;
	int			order;

	if (key >= page + BLCKSZ || question.place % 8 != 0 || encdb_btree_page(key) == NULL)
		return;
	pages++;
	if (!encdb_btree_ends_on(page, (Cell *) key))
	{
		refused++;
		return;
	}
	question.cell = CellBytes(key);
	links = encdb_btree_links(page);
	if (!encdb_btree_is_first(&question) || !encdb_btree_look(&memory, &question, &links))
	{
		refused++;
		return;
	}
	encdb_btree_answered(&memory, &question, (PgsealPosition) {1, 2, false});
	encdb_btree_knows(&memory, &question, &links);
	encdb_btree_recall(&memory, &question, &order);
}

static void
CompareAll(Page page)
{
	for (OffsetNumber number = FirstOffsetNumber; number <= KEYS; number++)
		Compare(page, number);
}

/* All line pointers lead to one tuple: more bytes than a page has */
static void
OneTuple(Page page, int level)
{
	Fill(page, level);
	for (OffsetNumber number = FirstOffsetNumber; number <= KEYS; number++)
		*PageGetItemId(page, number) = *PageGetItemId(page, FirstOffsetNumber + 7);
	CompareAll(page);
}

/* Each byte of the page, with other bits */
static void
EachByte(Page page, int level)
{
	static const uint8 flips[] = {0x01, 0x02, 0x40, 0x80, 0xff};

	for (int at = 0; at < BLCKSZ; at++)
		for (size_t flip = 0; flip < lengthof(flips); flip++)
		{
			Fill(page, level);
			page[at] ^= flips[flip];
			Compare(page, FirstOffsetNumber + at % KEYS);
			Compare(page, FirstOffsetNumber + 7);
		}
}

/* Units of 16 bytes of noise, as a damaged encrypted page has */
static void
Noise(Page page, int level)
{
	unsigned	seed = 1;

	for (int at = 0; at < BLCKSZ; at += 16)
		for (int round = 0; round < 20; round++)
		{
			Fill(page, level);
			for (int i = 0; i < 16; i++)
				page[at + i] = (char) ((seed = seed * 1103515245 + 12345) >> 16);
			CompareAll(page);
		}
}

int
main(void)
{
	BufferBlocks = aligned_alloc(BLCKSZ, BLCKSZ);
	for (int level = 0; level < 2; level++)
	{
		Fill(BufferBlocks, level);
		CompareAll(BufferBlocks);
		if (refused > 0)
			return 1;
	}
	for (int level = 0; level < 2; level++)
	{
		OneTuple(BufferBlocks, level);
		EachByte(BufferBlocks, level);
		Noise(BufferBlocks, level);
	}
	printf("%d pages, %d refused\n", pages, refused);
	free(BufferBlocks);
	return 0;
}
