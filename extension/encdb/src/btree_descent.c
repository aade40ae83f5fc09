/*
 * btree_descent.c
 *	  Searches of which one request gives all: an evaluator outside keeps the pages of indexes.
 *
 * Asked about a page, it goes on from there by itself, and reports on each page on the
 * way which cells stand beside the probe. Where they still stand side by side on the
 * page, the page is answered for, whatever else has changed on it. Where they do
 * not, or the evaluator has not got the page, it is handed over.
 *
 * What a search was told is kept for the next pages of its way, by its probe and index.
 */
#include "btree.h"

/* A range has two bounds, and a write has a probe for each index */
#define REMEMBERED		4
#define MOST_BYTES		8192

typedef struct Descent
{
	uint64		epoch;			/* 0: nothing was told */
	IndexId		index;
	const char *locale;
	int			probe_len;
	uint8		probe[MAX_PROBE];
	size_t		nfindings;
	PgsealFinding findings[PGSEAL_MOST_FINDINGS];
	size_t		used;
	uint8		bytes[MOST_BYTES];	/* of the findings' cells */
} Descent;

static Descent descents[REMEMBERED];
static int	oldest = 0;

/* What this probe was told in this index, or NULL if it has asked nothing yet */
static Descent *
EncdbDescentOf(const Question *question, const IndexId *index)
{
	for (int i = 0; i < REMEMBERED; i++)
	{
		Descent    *descent = &descents[i];

		if (descent->epoch == encdb_epoch && descent->locale == question->locale &&
			memcmp(&descent->index, index, sizeof(*index)) == 0 &&
			(size_t) descent->probe_len == question->probe.len &&
			memcmp(descent->probe, question->probe.data, question->probe.len) == 0)
			return descent;
	}
	return NULL;
}

static Descent *
EncdbDescentBegin(const Question *question, const IndexId *index)
{
	Descent    *descent = EncdbDescentOf(question, index);

	if (descent)
		return descent;
	descent = &descents[oldest];
	oldest = (oldest + 1) % REMEMBERED;
	descent->epoch = encdb_epoch;
	descent->index = *index;
	descent->locale = question->locale;
	descent->probe_len = (int) question->probe.len;
	memcpy(descent->probe, question->probe.data, question->probe.len);
	return descent;
}

/* Copies a cell out of the answer; false if there is no room */
static bool
EncdbDescentCopy(Descent *descent, PgsealBytes *cell)
{
	if (cell->len > MOST_BYTES - descent->used)
		return false;
	if (cell->len > 0)
		memcpy(descent->bytes + descent->used, cell->data, cell->len);
	cell->data = descent->bytes + descent->used;
	descent->used += cell->len;
	return true;
}

static bool
CopyAll(Descent *descent, PgsealFinding *finding)
{
	for (size_t i = 0; i < finding->nequal; i++)
		if (!EncdbDescentCopy(descent, &finding->equal[i]))
			return false;
	return EncdbDescentCopy(descent, &finding->below) && EncdbDescentCopy(descent, &finding->above) &&
		EncdbDescentCopy(descent, &finding->far);
}

/* Asks from a page on, which is handed over if there are cells; NULL if that is refused */
static Descent *
EncdbDescentAsk(const Question *question, const PageLinks *links,
				const PageCells *cells)
{
	PgsealStart start = {.block = links->block,.right = links->right};
	Descent    *descent = EncdbDescentBegin(question, &links->index);

	StaticAssertStmt(sizeof(links->index) <= sizeof(start.index), "an index has a name of 16 bytes");
	memcpy(start.index, &links->index, sizeof(links->index));
	if (cells)
	{
		start.cells = cells->cells;
		start.ncells = (size_t) cells->ncells;
		start.children = cells->children;
		start.nchildren = (size_t) cells->nchildren;
	}
	descent->nfindings = 0;
	descent->used = 0;
	encdb_btree_requests++;
	if (pgseal_descend(question->probe, &start, question->locale, descent->findings, &descent->nfindings) != 0)
	{
		descent->epoch = 0;
		return NULL;
	}
	for (size_t i = 0; i < descent->nfindings; i++)
		if (!CopyAll(descent, &descent->findings[i]))
			descent->nfindings = i;
	return descent;
}

/* What the evaluator told of a page; NULL if it has not got it, or refuses */
static const PgsealFinding *
EncdbDescentTold(const Question *question, const PageLinks *links)
{
	Descent    *descent = EncdbDescentOf(question, &links->index);

	if (!descent)
		descent = EncdbDescentAsk(question, links, NULL);
	if (!descent)
		return NULL;
	for (size_t i = 0; i < descent->nfindings; i++)
		if (descent->findings[i].block == links->block)
			return &descent->findings[i];
	return NULL;
}

/* Hands the page over; NULL if that is refused, or it is no page to be kept */
static const PgsealFinding *
HandOver(const Question *question, const PageLinks *links,
		 Memory *memory, PgsealPosition *position)
{
	static PageCells cells;
	Descent    *descent;

	if (!encdb_btree_cells(question, &cells) || cells.ncells > PGSEAL_MOST_CELLS)
		return NULL;
	encdb_btree_remember(memory, question->page, &cells, links);
	descent = EncdbDescentAsk(question, links, &cells);
	if (!descent || descent->nfindings == 0 ||
		descent->findings[0].position.through > (uint32) memory->ncells)
		return NULL;
	*position = descent->findings[0].position;
	return &descent->findings[0];
}

/* Where the probe is on a page that is remembered, or is to be; and whether it is known which way that is sorted */
bool
encdb_btree_descend(const Question *question, const PageLinks *links,
					Memory *memory, PgsealPosition *position, bool *is_sorted)
{
	const PgsealFinding *finding = EncdbDescentTold(question, links);

	if (!(finding && encdb_btree_knows(memory, question, links) &&
		  encdb_btree_stands(memory, finding, position)) &&
		!(finding && encdb_btree_look(memory, question, links) &&
		  encdb_btree_stands(memory, finding, position)))
		finding = HandOver(question, links, memory, position);
	*is_sorted = finding && !finding->uniform && finding->below.len + finding->above.len > 0;
	return finding != NULL;
}
