/*
 * encdb_btree.c
 *	  Comparisons with the keys of a page, answered by one request for all of them.
 *
 * 1. What was answered is remembered with the cells that it was answered for (memory.c).
 * 2. The evaluator searches, and so believes that the page is sorted, as nbtree
 *	  does.
 * 3. encdb's epoch ends what was answered: at every statement, and whenever
 *	  sessions change.
 * 4. An update puts its row's old keys into indexes again, which a search has just
 *	  found equal to its own probe: they are answered as that probe was.
 * 5. A scan to the right compares its first bound with every page, but the first
 *	  page has told of all that follow.
 * 6. Where requests are dear, one is for a whole descent (descent.c).
 */
#include "encdb_btree.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

/* Leaf pages: a range scan compares with both of its ends */
#define REMEMBERED		4
/* Inner pages, by their buffers */
#define INNER			128

static Memory memories[REMEMBERED];
static int	oldest = 0;
static Memory *inner[INNER];
static int64 answered = 0;

int64		encdb_btree_requests = 0;

extern PGDLLEXPORT bool encdb_btree_compare(const EncdbPageSearch *search, struct varlena *left,
											struct varlena *right, const char *locale, int *order);

/* Whether a page has been compared with often enough to be asked for */
static bool
IsWorthIt(const EncdbPageSearch *search, Page page)
{
	static Page last = NULL;
	static uint64 epoch = 0;
	static int	met = 0;

	if (page != last || search->epoch != epoch)
	{
		last = page;
		epoch = search->epoch;
		met = 0;
	}
	return ++met > search->patience;
}

/* Whether the probe lies before all on this page, because it does on the page to its left */
static bool
IsPassed(const EncdbPageSearch *search, const Question *question, const PageLinks *links,
		 PgsealPosition *position)
{
	for (int i = 0; i < REMEMBERED; i++)
		if (encdb_btree_is_passed(&memories[i], search->epoch, question, links))
		{
			*position = (PgsealPosition) {0, 0, memories[i].position.descending};
			return true;
		}
	return false;
}

/* What is remembered of an inner page */
static Memory **
Inner(Page page)
{
	return &inner[((Size) ((char *) page - BufferBlocks) / BLCKSZ) % INNER];
}

/* Where a page is to be remembered: an inner one in its place, a leaf in the place of what was remembered longest */
static Memory *
Room(Page page)
{
	Memory	  **place = Inner(page);

	if (encdb_btree_is_leaf(page))
	{
		Memory	   *memory = &memories[oldest];

		oldest = (oldest + 1) % REMEMBERED;
		memory->page = NULL;
		return memory;
	}
	if (!*place)
		*place = MemoryContextAllocZero(TopMemoryContext, sizeof(Memory));
	return *place;
}

/* Asks about this page alone */
static bool
Search(const EncdbPageSearch *search, const Question *question, const PageLinks *links,
	   Memory *memory, PgsealPosition *position)
{
	static PageCells cells;

	if (!encdb_btree_cells(question, &cells))
		return false;
	encdb_btree_remember(memory, question->page, &cells, links);
	encdb_btree_requests++;
	return search->search(question->probe, cells.cells, (size_t) cells.ncells, question->locale, position) &&
		position->through <= (uint32) memory->ncells;
}

static bool
Find(const EncdbPageSearch *search, const Question *question, const PageLinks *links, Memory *memory,
	 PgsealPosition *position, bool *is_sorted)
{
	if (search->descends)
		return encdb_btree_descend(search, question, links, memory, position, is_sorted);
	if (!Search(search, question, links, memory, position))
		return false;
	/* Of equal cells it is not known which way they are sorted */
	*is_sorted = position->through > 0 || position->descending;
	return true;
}

/* Learns where the probe stands on a page; NULL if that is refused */
static Memory *
Learn(const EncdbPageSearch *search, const Question *question)
{
	PageLinks	links;
	PgsealPosition position;
	bool		passed;
	Memory	   *memory;
	bool		is_sorted = true;

	/* A key of another column asks for nothing, and takes nobody's room */
	if (!encdb_btree_is_first(question))
		return NULL;
	links = encdb_btree_links(question->page);
	passed = encdb_btree_is_leaf(question->page) && IsPassed(search, question, &links, &position);
	memory = Room(question->page);
	memory->epoch = 0;
	if (!(passed ? encdb_btree_look(memory, question, &links) :
		  Find(search, question, &links, memory, &position, &is_sorted)))
		return NULL;
	encdb_btree_answered(memory, search->epoch, question, position);
	memory->passed = is_sorted && position.through < (uint32) memory->ncells;
	return memory;
}

static bool
Recall(const EncdbPageSearch *search, const Question *question, int *order)
{
	Memory	   *memory = *Inner(question->page);

	if (memory && encdb_btree_recall(memory, search->epoch, question, order))
		return true;
	for (int i = 0; i < REMEMBERED; i++)
		if (encdb_btree_recall(&memories[i], search->epoch, question, order))
			return true;
	return false;
}

/* Recalls what was answered to a probe that this one was found equal to */
static bool
RecallEqual(const EncdbPageSearch *search, const Question *question, int *order)
{
	Question	other = *question;

	for (int i = 0; i < REMEMBERED; i++)
	{
		if (!encdb_btree_is_equal(&memories[i], search->epoch, question))
			continue;
		other.probe = (PgsealBytes) {memories[i].probe, (size_t) memories[i].probe_len};
		if (Recall(search, &other, order))
			return true;
	}
	return false;
}

static bool
Answer(const EncdbPageSearch *search, const Question *question, int *order)
{
	Memory	   *memory;

	if (Recall(search, question, order) || RecallEqual(search, question, order))
	{
		answered++;
		return true;
	}
	memory = Learn(search, question);
	return memory && encdb_btree_recall(memory, search->epoch, question, order);
}

bool
encdb_btree_compare(const EncdbPageSearch *search, struct varlena *left, struct varlena *right,
					const char *locale, int *order)
{
	Page		page = encdb_btree_page(left);
	Question	question = {
		.page = page,
		.place = (uint16) ((char *) left - (char *) page),
		.cell = {(const uint8_t *) VARDATA_ANY(left), VARSIZE_ANY_EXHDR(left)},
		.probe = {(const uint8_t *) VARDATA_ANY(right), VARSIZE_ANY_EXHDR(right)},
		.locale = locale,
	};

	if (!page || search->version != ENCDB_PAGE_COMPARE_VERSION || question.probe.len > MAX_PROBE ||
		question.place % 8 != 0)
		return false;
	return IsWorthIt(search, page) && Answer(search, &question, order);
}

/* encdb.page_statistics(): what this session has saved */
PG_FUNCTION_INFO_V1(encdb_btree_statistics);
Datum
encdb_btree_statistics(PG_FUNCTION_ARGS)
{
	TupleDesc	columns;
	Datum		values[2] = {Int64GetDatum(encdb_btree_requests), Int64GetDatum(answered)};
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
