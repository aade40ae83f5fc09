/*
 * memory.c
 *	  What is remembered of a page: its cells, byte by byte, and how each compares with a probe.
 *
 * That one cell is less than another is true wherever the two lie. A key that
 * is not the same bytes any more is not answered from here, so nothing goes
 * wrong when the page changes, or the buffer.
 */
#include "encdb_btree.h"

/* Nothing is known of a probe yet */
void
encdb_btree_remember(Memory *memory, Page page, const PageCells *cells)
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
	memory->page = page;
	memory->epoch = 0;
}

void
encdb_btree_answered(Memory *memory, uint64 epoch, const Question *question, PgsealPosition position)
{
	memory->locale = question->locale;
	memory->probe_len = (int) question->probe.len;
	memcpy(memory->probe, question->probe.data, question->probe.len);
	memory->position = position;
	memory->epoch = epoch;
}

static bool
IsCell(const Memory *memory, int ordinal, PgsealBytes cell)
{
	return (size_t) (memory->start[ordinal + 1] - memory->start[ordinal]) == cell.len &&
		memcmp(memory->bytes + memory->start[ordinal], cell.data, cell.len) == 0;
}

/* The key's place among the page's, if it is the cell that it was, else -1 */
static int
Ordinal(const Memory *memory, const Question *question)
{
	int			ordinal = memory->ordinal[question->place / 8] - 1;

	return ordinal >= 0 && IsCell(memory, ordinal, question->cell) ? ordinal : -1;
}

bool
encdb_btree_knows(const Memory *memory, const Question *question)
{
	return memory->page == question->page && Ordinal(memory, question) >= 0;
}

/* Whether the probe is a cell of the page that was found equal to the remembered probe */
bool
encdb_btree_is_equal(const Memory *memory, uint64 epoch, const Question *question)
{
	if (memory->epoch != epoch || memory->locale != question->locale)
		return false;
	for (uint32 i = memory->position.before; i < memory->position.through; i++)
		if (IsCell(memory, (int) i, question->probe))
			return true;
	return false;
}

static bool
IsAnswerTo(const Memory *memory, uint64 epoch, const Question *question)
{
	return memory->epoch == epoch && memory->locale == question->locale &&
		(size_t) memory->probe_len == question->probe.len &&
		memcmp(memory->probe, question->probe.data, question->probe.len) == 0;
}

/*
 * Whether the page of these links is the right neighbour of this one, and the probe lies before all on it. A neighbour that
 * got keys from a page between the two, which was deleted, has another one on its left.
 */
bool
encdb_btree_is_passed(const Memory *memory, uint64 epoch, const Question *question, const PageLinks *links)
{
	return IsAnswerTo(memory, epoch, question) && memory->passed &&
		memcmp(&memory->links.index, &links->index, sizeof(links->index)) == 0 &&
		memory->links.right == links->block && links->left == memory->links.block;
}

/* How the key compares with the probe, if that is remembered */
bool
encdb_btree_recall(const Memory *memory, uint64 epoch, const Question *question, int *order)
{
	PgsealPosition position = memory->position;
	int			ordinal;

	if (memory->page != question->page || !IsAnswerTo(memory, epoch, question))
		return false;
	ordinal = Ordinal(memory, question);
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
