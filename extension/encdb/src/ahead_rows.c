/*
 * ahead_rows.c
 *	  The rows that were read ahead: which one a cell lies in, and the cells of the others.
 */
#include "ahead.h"

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

/* Whether a cell lies in the row that the node gave last */
bool
encdb_ahead_is_row(const Ahead *node, const void *cell)
{
	HeapTuple	row;

	if (node->current < 0)
		return false;
	row = node->rows[node->current];
	return (const char *) cell > (const char *) row->t_data && (const char *) cell < (const char *) row->t_data + row->t_len;
}

/* The column, from 0 on, of a cell in the row that was given last, or -1 */
static int
ColumnOf(const Ahead *node, const void *cell)
{
	TupleTableSlot *slot = node->scan.ss.ss_ScanTupleSlot;

	for (int column = 0; column < slot->tts_nvalid; column++)
		if (slot->tts_values[column] == PointerGetDatum(cell) && !slot->tts_isnull[column] &&
			TupleDescAttr(slot->tts_tupleDescriptor, column)->attlen == -1)
			return column;
	return -1;
}

/* The node that gave the row in which a cell lies, and the cell's column; or NULL */
Ahead *
encdb_ahead_node(const void *cell, int *column)
{
	for (Ahead *node = encdb_ahead_open; node != NULL; node = node->next)
		if (encdb_ahead_is_row(node, cell))
		{
			*column = ColumnOf(node, cell);
			return *column < 0 ? NULL : node;
		}
	return NULL;
}

/* The cell of a row; false: there is none to ask about, because it is NULL or lies elsewhere */
bool
encdb_ahead_cell(const Ahead *node, int row, int column, PgsealBytes *cell, bool *is_null)
{
	TupleDesc	columns = node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	Datum		datum = heap_getattr(node->rows[row], column + 1, columns, is_null);
	Cell	   *there = (Cell *) DatumGetPointer(datum);

	if (*is_null || VARATT_IS_EXTERNAL(there) || VARATT_IS_COMPRESSED(there))
		return false;
	*cell = CellBytes(there);
	return true;
}
