/*
 * btree_memory.c
 *	  What is remembered of a page: its cells, byte by byte, and how each compares with a probe.
 *
 * That one cell is less than another is true wherever the two lie. A key that
 * is not the same bytes any more is not answered from here, so nothing goes
 * wrong when the page changes, or the buffer.
 */
#include "btree.h"

/* Nothing is known of a probe yet */
void
encdb_btree_remember(Memory *memory, Page page, const PageCells *cells, const PageLinks *links)
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
	memory->page = page;
	memory->links = *links;
	memory->epoch = 0;
}

/* Remembers the page of the question as it is now */
bool
encdb_btree_look(Memory *memory, const Question *question, const PageLinks *links)
{
	static PageCells cells;

	if (!encdb_btree_cells(question, &cells))
		return false;
	encdb_btree_remember(memory, question->page, &cells, links);
	return true;
}

void
encdb_btree_answered(Memory *memory, const Question *question, PgsealPosition position)
{
	memory->locale = question->locale;
	memory->probe_len = (int) question->probe.len;
	memcpy(memory->probe, question->probe.data, question->probe.len);
	memory->position = position;
	memory->epoch = encdb_epoch;
}

static bool
IsCell(const Memory *memory, int ordinal, PgsealBytes cell)
{
	return (size_t) (memory->start[ordinal + 1] - memory->start[ordinal]) == cell.len &&
		memcmp(memory->bytes + memory->start[ordinal], cell.data, cell.len) == 0;
}

/* The key's place among the page's, if it is the cell that it was, else -1 */
static int
EncdbMemoryOrdinal(const Memory *memory, const Question *question)
{
	int			ordinal = memory->ordinal[question->place / 8] - 1;

	return ordinal >= 0 && IsCell(memory, ordinal, question->cell) ? ordinal : -1;
}

/*
 * Whether this is the page of the question, and its key the same. A buffer may hold a page of another index by now, on the same
 * column and so with the same cells, whose collation orders them in another way.
 */
bool
encdb_btree_knows(const Memory *memory, const Question *question, const PageLinks *links)
{
	return memory->page == question->page && memory->links.block == links->block &&
		memcmp(&memory->links.index, &links->index, sizeof(links->index)) == 0 &&
		EncdbMemoryOrdinal(memory, question) >= 0;
}

static bool
IsOneOf(const Memory *memory, int ordinal, const PgsealFinding *finding)
{
	for (size_t i = 0; i < finding->nequal; i++)
		if (IsCell(memory, ordinal, finding->equal[i]))
			return true;
	return false;
}

/* Where a cell is, which mostly is where it was; -1 if it has gone */
static int
EncdbMemoryPlace(const Memory *memory, PgsealBytes cell, int hint)
{
	if (hint >= 0 && hint < memory->ncells && IsCell(memory, hint, cell))
		return hint;
	for (int ordinal = 0; ordinal < memory->ncells; ordinal++)
		if (IsCell(memory, ordinal, cell))
			return ordinal;
	return -1;
}

/* How many cells stand before the probe, by the last of them; -1 if it has gone */
static int
EncdbMemoryBefore(const Memory *memory, const PgsealFinding *finding)
{
	int			ordinal;

	if (finding->below.len == 0)
		return 0;
	ordinal = EncdbMemoryPlace(memory, finding->below, (int) finding->position.before - 1);
	if (ordinal < 0)
		return -1;
	do
		ordinal++;
	while (ordinal < memory->ncells && IsCell(memory, ordinal, finding->below));
	return ordinal;
}

/* How many cells stand before or with the probe: what is between cells that are equal to it is equal, too */
static int
EncdbMemoryThrough(const Memory *memory, const PgsealFinding *finding, int before)
{
	int			through = before;
	int			last = memory->ncells - 1;

	while (through < memory->ncells && IsOneOf(memory, through, finding))
		through++;
	if (through == before || through == memory->ncells || IsCell(memory, through, finding->above))
		return through;
	while (!IsOneOf(memory, last, finding))
		last--;
	return last + 1;
}

/*
 * Whether the page is known to be sorted as the finding says: two cells stand here whose order is known. Another index may have
 * had its name before.
 */
static bool
IsSortedSo(const Memory *memory, const PgsealFinding *finding, int before, int through)
{
	int			known = (before > 0) + (through > before) + (through < memory->ncells);
	int			far;

	if (known >= 2)
		return true;
	if (known == 0 || finding->far.len == 0)
		return false;
	far = EncdbMemoryPlace(memory, finding->far, before > 0 ? 0 : memory->ncells - 1);
	return far >= 0 && (before > 0 ? far < before - 1 : far > through);
}

/* Whether both ends of the page are cells that are told of, which are equal: then so is all between them */
static bool
IsUniform(const Memory *memory, const PgsealFinding *finding, int before, int through)
{
	return before == memory->ncells ? IsCell(memory, 0, finding->far) :
		through == 0 && IsCell(memory, memory->ncells - 1, finding->far);
}

/*
 * Where the probe is, if the cells beside it, which were compared with it, stand side by side here, and between them only
 * those that are equal to it.
 */
bool
encdb_btree_stands(const Memory *memory, const PgsealFinding *finding, PgsealPosition *position)
{
	int			before = EncdbMemoryBefore(memory, finding);
	int			through;

	if (before < 0)
		return false;
	through = EncdbMemoryThrough(memory, finding, before);
	if (through < memory->ncells ? !IsCell(memory, through, finding->above) : finding->above.len > 0)
		return false;
	/* All are equal to the probe, or it is known what else there is */
	if (!(before == 0 && through == memory->ncells) &&
		!(finding->uniform ? IsUniform(memory, finding, before, through) :
		  IsSortedSo(memory, finding, before, through)))
		return false;
	*position = (PgsealPosition) {(uint32) before, (uint32) through, finding->position.descending};
	return true;
}

/* Whether the probe is a cell of the page that was found equal to the remembered probe */
bool
encdb_btree_is_equal(const Memory *memory, const Question *question)
{
	if (memory->epoch != encdb_epoch || memory->locale != question->locale)
		return false;
	for (uint32 i = memory->position.before; i < memory->position.through; i++)
		if (IsCell(memory, (int) i, question->probe))
			return true;
	return false;
}

static bool
IsAnswerTo(const Memory *memory, const Question *question)
{
	return memory->epoch == encdb_epoch && memory->locale == question->locale &&
		(size_t) memory->probe_len == question->probe.len &&
		memcmp(memory->probe, question->probe.data, question->probe.len) == 0;
}

/*
 * Whether the page of these links is the right neighbour of this one, and the probe is before all on it. A neighbour that
 * got keys from a page between the two, which was deleted, has another one on its left.
 */
bool
encdb_btree_is_passed(const Memory *memory, const Question *question, const PageLinks *links)
{
	return IsAnswerTo(memory, question) && memory->passed &&
		memcmp(&memory->links.index, &links->index, sizeof(links->index)) == 0 &&
		memory->links.right == links->block && links->left == memory->links.block;
}

/* How the key compares with the probe, if that is remembered */
bool
encdb_btree_recall(const Memory *memory, const Question *question, int *order)
{
	PgsealPosition position = memory->position;
	int			ordinal;

	if (memory->page != question->page || !IsAnswerTo(memory, question))
		return false;
	ordinal = EncdbMemoryOrdinal(memory, question);
	if (ordinal < 0)
		return false;
	if ((uint32) ordinal < position.before)
		*order = -1;
	else
		*order = (uint32) ordinal < position.through ? 0 : 1;
	if (position.descending)
		*order = -*order;
	return true;
}
