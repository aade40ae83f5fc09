/*
 * kept.c
 *	  The upper pages of indexes, which the evaluator keeps: a descent asks once for all of them.
 *
 * A page is handed over when it is first met, and again when a key on it is
 * another than it was. Both sides know it by a number, its place here. The
 * evaluator loses its pages with the session; then a search is refused, and
 * everything here is forgotten.
 */
#include "encdb_btree.h"

#include "utils/memutils.h"

typedef struct Kept
{
	IndexId		index;
	uint64		used;			/* when it was asked for last; 0: the evaluator does not have it */
	Memory		memory;
} Kept;

static Kept *kept[PGSEAL_MOST_PAGES];
static int	nkept = 0;
static uint64 searches = 0;

/* The last page that was looked for is mostly the next one, too */
static int
Find(Page page)
{
	static int	last = 0;

	if (last < nkept && kept[last]->memory.page == page)
		return last;
	for (int i = 0; i < nkept; i++)
		if (kept[i]->memory.page == page)
			return last = i;
	return -1;
}

/* What is remembered of a page, or NULL */
Memory *
encdb_btree_kept(Page page)
{
	int			number = Find(page);

	return number < 0 ? NULL : &kept[number]->memory;
}

/* A number for a page: its own, a new one, or that of the page that was used longest ago */
static int
Number(Page page)
{
	int			number = Find(page);

	if (number >= 0)
		return number;
	if (nkept < PGSEAL_MOST_PAGES)
	{
		kept[nkept] = MemoryContextAllocZero(TopMemoryContext, sizeof(Kept));
		return nkept++;
	}
	number = 0;
	for (int i = 1; i < nkept; i++)
		if (kept[i]->used < kept[number]->used)
			number = i;
	return number;
}

/* Hands the page over; -1 if that is refused, or it is no page to be kept */
static int
Keep(const EncdbPageSearch *search, const Question *question)
{
	static PageCells cells;
	int			number;

	if (!encdb_btree_cells(question, &cells) || cells.ncells > PGSEAL_MOST_KEPT)
		return -1;
	number = Number(question->page);
	kept[number]->used = 0;
	encdb_btree_remember(&kept[number]->memory, question->page, &cells);
	if (!search->keep((uint32) number, cells.cells, (size_t) cells.ncells))
		return -1;
	kept[number]->index = encdb_btree_links(question->page).index;
	kept[number]->used = ++searches;
	return number;
}

/* Asks for the pages of one index */
static bool
Search(const EncdbPageSearch *search, const Question *question, const IndexId *index)
{
	uint32		pages[PGSEAL_MOST_PAGES] = {0};
	PgsealPosition positions[PGSEAL_MOST_PAGES];
	size_t		npages = 0;

	for (int i = 0; i < nkept; i++)
		if (kept[i]->used > 0 && memcmp(&kept[i]->index, index, sizeof(*index)) == 0)
			pages[npages++] = (uint32) i;
	if (!search->search_kept(question->probe, pages, npages, question->locale, positions))
		return false;
	searches++;
	for (size_t i = 0; i < npages; i++)
	{
		kept[pages[i]]->used = searches;
		encdb_btree_answered(&kept[pages[i]]->memory, search->epoch, question, positions[i]);
	}
	return true;
}

static void
ForgetAll(void)
{
	for (int i = 0; i < nkept; i++)
		kept[i]->used = 0;
}

/*
 * Whether the evaluator has the page of the question. A buffer may hold a page of
 * another index by now, on the same column and so with the same cells, whose
 * collation orders the others on it in another way.
 */
static bool
Has(int number, const Question *question, const IndexId *index)
{
	return number >= 0 && kept[number]->used > 0 && memcmp(&kept[number]->index, index, sizeof(*index)) == 0 &&
		encdb_btree_knows(&kept[number]->memory, question);
}

/* Asks for the page of the question, and with it for all of its index; NULL if that is refused */
Memory *
encdb_btree_ask_index(const EncdbPageSearch *search, const Question *question)
{
	IndexId		index = encdb_btree_links(question->page).index;
	int			number = Find(question->page);

	if (!Has(number, question, &index))
		number = Keep(search, question);
	if (number < 0)
		return NULL;
	if (!Search(search, question, &index))
	{
		ForgetAll();
		number = Keep(search, question);
		if (number < 0 || !Search(search, question, &index))
			return NULL;
	}
	return &kept[number]->memory;
}
