/*
 * btree.c
 *	  Comparisons with the keys of a page, answered by one request for all of them.
 *
 * 1. What was answered is remembered with the cells that it was answered for (btree_memory.c).
 * 2. The evaluator searches, and so believes that the page is sorted, as nbtree
 *	  does.
 * 3. encdb_epoch ends what was answered: at every statement, and whenever
 *	  sessions change.
 * 4. An update puts its row's old keys into indexes again, which a search has just
 *	  found equal to its own probe: they are answered as that probe was.
 * 5. A scan to the right compares its first bound with every page, but the first
 *	  page has told of all that follow.
 * 6. Where requests are dear, one is for a whole descent (btree_descent.c).
 */
#include "btree.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* Leaf pages: a range scan compares with both of its ends */
#define REMEMBERED		4
/* Inner pages, by their buffers */
#define INNER			128
/* Comparisons of a binary search on a page that is full of small cells, and of looking whether it ended at equal ones */
#define DESCENT			12

static Memory memories[REMEMBERED];
static int	oldest = 0;
static Memory *inner[INNER];
static int64 answered = 0;

int64		encdb_btree_requests = 0;

/* Whether requests are dear, and the evaluator keeps pages: then one is for a whole descent */
static bool
EncdbBtreeDescends(void)
{
	return encdb_evaluator == EVALUATOR_ISOLATED;
}

/* Comparisons with one page before it is worth a request: a descent is no more, a scan is many */
static int
EncdbBtreePatience(void)
{
	return encdb_page_requests == PAGE_REQUESTS_AUTO && !EncdbBtreeDescends() ? DESCENT : 0;
}

/* Whether a page has been compared with often enough to be asked for */
static bool
IsWorthIt(Page page)
{
	static Page last = NULL;
	static uint64 epoch = 0;
	static int	met = 0;

	if (page != last || encdb_epoch != epoch)
	{
		last = page;
		epoch = encdb_epoch;
		met = 0;
	}
	return ++met > EncdbBtreePatience();
}

/* Whether the probe is before all on this page, because it does on the page to its left */
static bool
IsPassed(const Question *question, const PageLinks *links,
		 PgsealPosition *position)
{
	for (int i = 0; i < REMEMBERED; i++)
		if (encdb_btree_is_passed(&memories[i], question, links))
		{
			*position = (PgsealPosition) {0, 0, memories[i].position.descending};
			return true;
		}
	return false;
}

/* What is remembered of an inner page */
static Memory **
EncdbBtreeInner(Page page)
{
	return &inner[((Size) ((char *) page - BufferBlocks) / BLCKSZ) % INNER];
}

/* Where a page is to be remembered: an inner one in its place, a leaf in the place of what was remembered longest */
static Memory *
EncdbBtreeRoom(Page page)
{
	Memory	  **place = EncdbBtreeInner(page);

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
EncdbBtreeSearch(const Question *question, const PageLinks *links,
				 Memory *memory, PgsealPosition *position)
{
	static PageCells cells;

	if (!encdb_btree_cells(question, &cells))
		return false;
	encdb_btree_remember(memory, question->page, &cells, links);
	encdb_btree_requests++;
	return pgseal_search(question->probe, cells.cells, (size_t) cells.ncells, question->locale, position) == 0 &&
		position->through <= (uint32) memory->ncells;
}

static bool
EncdbBtreeFind(const Question *question, const PageLinks *links, Memory *memory,
			   PgsealPosition *position, bool *is_sorted)
{
	if (EncdbBtreeDescends())
		return encdb_btree_descend(question, links, memory, position, is_sorted);
	if (!EncdbBtreeSearch(question, links, memory, position))
		return false;
	/* Of equal cells it is not known which way they are sorted */
	*is_sorted = position->through > 0 || position->descending;
	return true;
}

/* Learns where the probe is on a page; NULL if that is refused */
static Memory *
EncdbBtreeLearn(const Question *question)
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
	passed = encdb_btree_is_leaf(question->page) && IsPassed(question, &links, &position);
	memory = EncdbBtreeRoom(question->page);
	memory->epoch = 0;
	if (!(passed ? encdb_btree_look(memory, question, &links) :
		  EncdbBtreeFind(question, &links, memory, &position, &is_sorted)))
		return NULL;
	encdb_btree_answered(memory, question, position);
	memory->passed = is_sorted && position.through < (uint32) memory->ncells;
	return memory;
}

static bool
EncdbBtreeRecall(const Question *question, int *order)
{
	Memory	   *memory = *EncdbBtreeInner(question->page);

	if (memory && encdb_btree_recall(memory, question, order))
		return true;
	for (int i = 0; i < REMEMBERED; i++)
		if (encdb_btree_recall(&memories[i], question, order))
			return true;
	return false;
}

/* Recalls what was answered to a probe that this one was found equal to */
static bool
RecallEqual(const Question *question, int *order)
{
	Question	other = *question;

	for (int i = 0; i < REMEMBERED; i++)
	{
		if (!encdb_btree_is_equal(&memories[i], question))
			continue;
		other.probe = (PgsealBytes) {memories[i].probe, (size_t) memories[i].probe_len};
		if (EncdbBtreeRecall(&other, order))
			return true;
	}
	return false;
}

static bool
EncdbBtreeAnswer(const Question *question, int *order)
{
	Memory	   *memory;

	if (EncdbBtreeRecall(question, order) || RecallEqual(question, order))
	{
		answered++;
		return true;
	}
	memory = EncdbBtreeLearn(question);
	return memory && encdb_btree_recall(memory, question, order);
}

/* False: the left one is no key of a page, or the search was refused */
bool
encdb_btree_compare(Cell *left, Cell *right, const char *locale, int *order)
{
	Page		page = encdb_btree_page(left);
	Question	question = {
		.page = page,
		.place = (uint16) ((char *) left - (char *) page),
		.cell = CellBytes(left),
		.probe = CellBytes(right),
		.locale = locale,
	};

	if (!page)
		return false;
	if (!encdb_btree_ends_on(page, left))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("a key of an index does not end on its page"),
				 errhint("The page is damaged: REINDEX makes the index anew.")));
	if (encdb_page_requests == PAGE_REQUESTS_OFF || question.probe.len > MAX_PROBE || question.place % 8 != 0)
		return false;
	return IsWorthIt(page) && EncdbBtreeAnswer(&question, order);
}

/* encdb.page_statistics(): what this session has saved */
PG_FUNCTION_INFO_V1(encdb_page_statistics);
Datum
encdb_page_statistics(PG_FUNCTION_ARGS)
{
	TupleDesc	columns;
	Datum		values[2] = {Int64GetDatum(encdb_btree_requests), Int64GetDatum(answered)};
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
