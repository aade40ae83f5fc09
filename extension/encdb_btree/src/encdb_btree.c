/*
 * encdb_btree.c
 *	  Comparisons with the keys of a page, answered by one request for all of them.
 *
 * 1. That one cell is less than another is true wherever the two lie. What is
 *	  remembered of a page are its cells, byte by byte, and how each compares
 *	  with the probe; a key that is not the same bytes any more is asked for anew.
 *	  So nothing goes wrong when the page changes, or the buffer.
 * 2. The evaluator searches, and so believes that the page is sorted, as nbtree
 *	  does.
 * 3. encdb's epoch ends what was remembered: at every statement, and whenever
 *	  sessions change.
 */
#include "encdb_btree.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

PG_MODULE_MAGIC;

/* A descent meets a few levels, a range scan compares with both of its ends */
#define REMEMBERED		4
#define MAX_PROBE		256

typedef struct Memory
{
	uint64		epoch;			/* 0: nothing is remembered */
	Page		page;
	const char *locale;
	int			probe_len;
	uint8		probe[MAX_PROBE];
	PgsealPosition position;
	int			ncells;
	uint16		ordinal[BLCKSZ / 8];	/* by place on the page; 0: none, else one more */
	uint16		start[MAX_CELLS + 1];	/* of a cell in `bytes` */
	uint8		bytes[BLCKSZ];
} Memory;

static Memory memories[REMEMBERED];
static int	oldest = 0;
static int64 requests = 0;
static int64 answered = 0;

extern PGDLLEXPORT bool encdb_btree_compare(const EncdbPageSearch *search, struct varlena *left,
											struct varlena *right, const char *locale, int *order);

static bool
Fits(const Memory *memory, uint64 epoch, Page page, PgsealBytes probe, const char *locale)
{
	return memory->epoch == epoch && memory->page == page && memory->locale == locale &&
		(size_t) memory->probe_len == probe.len &&
		memcmp(memory->probe, probe.data, probe.len) == 0;
}

static void
Remember(Memory *memory, const PageCells *cells)
{
	int			used = 0;

	memset(memory->ordinal, 0, sizeof(memory->ordinal));
	for (int i = 0; i < cells->ncells; i++)
	{
		memory->ordinal[cells->place[i] / 8] = (uint16) (i + 1);
		memory->start[i] = (uint16) used;
		memcpy(memory->bytes + used, cells->cells[i].data, cells->cells[i].len);
		used += (int) cells->cells[i].len;
	}
	memory->start[cells->ncells] = (uint16) used;
	memory->ncells = cells->ncells;
}

/* Asks for a page, in the place of what was remembered longest; NULL if that is refused */
static Memory *
Ask(const EncdbPageSearch *search, Page page, const void *datum, PgsealBytes probe,
	const char *locale)
{
	static PageCells cells;
	Memory	   *memory = &memories[oldest];

	if (!encdb_btree_cells(page, datum, &cells))
		return NULL;
	memory->epoch = 0;
	if (!search->search(probe, cells.cells, cells.ncells, locale, &memory->position))
		return NULL;
	Remember(memory, &cells);
	memory->page = page;
	memory->locale = locale;
	memory->probe_len = (int) probe.len;
	memcpy(memory->probe, probe.data, probe.len);
	memory->epoch = search->epoch;
	oldest = (oldest + 1) % REMEMBERED;
	requests++;
	return memory;
}

/* How a key of the page compares with the probe, if it is the cell that it was */
static bool
Recall(const Memory *memory, uint16 place, PgsealBytes cell, int *order)
{
	int			ordinal = memory->ordinal[place / 8] - 1;
	PgsealPosition position = memory->position;

	if (ordinal < 0 ||
		(size_t) (memory->start[ordinal + 1] - memory->start[ordinal]) != cell.len ||
		memcmp(memory->bytes + memory->start[ordinal], cell.data, cell.len) != 0)
		return false;
	if ((uint32) ordinal < position.before)
		*order = -1;
	else
		*order = (uint32) ordinal < position.through ? 0 : 1;
	if (position.descending)
		*order = -*order;
	return true;
}

bool
encdb_btree_compare(const EncdbPageSearch *search, struct varlena *left, struct varlena *right,
					const char *locale, int *order)
{
	Page		page = encdb_btree_page(left);
	PgsealBytes cell = {(const uint8_t *) VARDATA_ANY(left), VARSIZE_ANY_EXHDR(left)};
	PgsealBytes probe = {(const uint8_t *) VARDATA_ANY(right), VARSIZE_ANY_EXHDR(right)};
	uint16		place = (uint16) ((char *) left - (char *) page);
	Memory	   *memory;

	if (!page || probe.len > MAX_PROBE || place % 8 != 0)
		return false;
	for (int i = 0; i < REMEMBERED; i++)
		if (Fits(&memories[i], search->epoch, page, probe, locale) &&
			Recall(&memories[i], place, cell, order))
		{
			answered++;
			return true;
		}
	memory = Ask(search, page, left, probe, locale);
	return memory && Recall(memory, place, cell, order);
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
