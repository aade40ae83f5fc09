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
 * 6. Where requests are dear, upper pages are asked for together (kept.c); of
 *	  leaf pages, a few are remembered here.
 */
#include "encdb_btree.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

PG_MODULE_MAGIC;

/* A range scan compares with both of its ends */
#define REMEMBERED		4

static Memory memories[REMEMBERED];
static int	oldest = 0;
static int64 requests = 0;
static int64 answered = 0;

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

/* Learns where the probe stands on a page, in the place of what was remembered longest; NULL if that is refused */
static Memory *
Learn(const EncdbPageSearch *search, const Question *question)
{
	static PageCells cells;
	Memory	   *memory = &memories[oldest];
	PageLinks	links = encdb_btree_links(question->page);
	PgsealPosition position;
	bool		passed;

	if (!encdb_btree_cells(question, &cells))
		return NULL;
	passed = encdb_btree_is_leaf(question->page) && IsPassed(search, question, &links, &position);
	if (!passed)
	{
		if (!search->search(question->probe, cells.cells, (size_t) cells.ncells, question->locale, &position))
			return NULL;
		requests++;
		/* Of equal cells it is not known which way they are sorted */
		passed = position.through < (uint32) cells.ncells && (position.through > 0 || position.descending);
	}
	encdb_btree_remember(memory, question->page, &cells);
	encdb_btree_answered(memory, search->epoch, question, position);
	memory->links = links;
	memory->passed = passed;
	oldest = (oldest + 1) % REMEMBERED;
	return memory;
}

static bool
Recall(const EncdbPageSearch *search, const Question *question, bool keeps, int *order)
{
	Memory	   *memory;

	if (keeps)
	{
		memory = encdb_btree_kept(question->page);
		return memory && encdb_btree_recall(memory, search->epoch, question, order);
	}
	for (int i = 0; i < REMEMBERED; i++)
		if (encdb_btree_recall(&memories[i], search->epoch, question, order))
			return true;
	return false;
}

/* Recalls what was answered to a probe that this one was found equal to */
static bool
RecallEqual(const EncdbPageSearch *search, const Question *question, bool keeps, int *order)
{
	Question	other = *question;

	for (int i = 0; i < REMEMBERED; i++)
	{
		if (!encdb_btree_is_equal(&memories[i], search->epoch, question))
			continue;
		other.probe = (PgsealBytes) {memories[i].probe, (size_t) memories[i].probe_len};
		if (Recall(search, &other, keeps, order))
			return true;
	}
	return false;
}

static bool
Answer(const EncdbPageSearch *search, const Question *question, int *order)
{
	bool		keeps = search->keeps && !encdb_btree_is_leaf(question->page);
	Memory	   *memory;

	if (Recall(search, question, keeps, order) ||
		RecallEqual(search, question, keeps, order))
	{
		answered++;
		return true;
	}
	memory = keeps ? encdb_btree_ask_index(search, question) : Learn(search, question);
	requests += keeps && memory != NULL;
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
	Datum		values[2] = {Int64GetDatum(requests), Int64GetDatum(answered)};
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
