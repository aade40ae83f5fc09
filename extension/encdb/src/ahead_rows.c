/*
 * ahead_rows.c
 *	  The rows that were read ahead: to which one a cell belongs, and the cells of the others.
 */
#include "ahead.h"
#include "row.h"

#include "executor/tuptable.h"
#include "utils/rel.h"

static bool
IsInRow(const Ahead *node, const void *cell)
{
	HeapTuple	row = node->rows[node->current];

	return (const char *) cell > (const char *) row->t_data && (const char *) cell < (const char *) row->t_data + row->t_len;
}

/* The column, from 0 on, of a cell in the row that was given last, or -1 */
static int
StoredColumn(const Ahead *node, const void *cell)
{
	TupleTableSlot *slot = node->scan.ss.ss_ScanTupleSlot;

	for (int column = 0; column < slot->tts_nvalid; column++)
		if (slot->tts_values[column] == PointerGetDatum(cell) && !slot->tts_isnull[column] &&
			TupleDescAttr(slot->tts_tupleDescriptor, column)->attlen == -1)
			return column;
	return -1;
}

/* The same, of a cell that was computed for this row: these columns come behind those of the row */
static int
ComputedColumn(const Ahead *node, const void *cell)
{
	for (int i = 0; i < node->ncomputations; i++)
		if (encdb_ahead_result(node, i, node->current) == cell)
			return node->ncolumns + i;
	return -1;
}

/* The node that gave the row to which a cell belongs, and the cell's column; or NULL */
Ahead *
encdb_ahead_node(const void *cell, int *column)
{
	for (Ahead *node = encdb_ahead_open; node != NULL; node = node->next)
	{
		if (node->current < 0)
			continue;
		*column = IsInRow(node, cell) ? StoredColumn(node, cell) : ComputedColumn(node, cell);
		if (*column >= 0)
			return node;
	}
	return NULL;
}

/* What a column of a row holds; NULL: it is NULL, or not known yet */
static Cell *
Held(const Ahead *node, int row, int column, bool *is_null)
{
	TupleDesc	columns = node->scan.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	if (column >= node->ncolumns)
	{
		*is_null = encdb_ahead_is_null(node, column - node->ncolumns, row);
		return encdb_ahead_result(node, column - node->ncolumns, row);
	}
	return (Cell *) DatumGetPointer(EncdbRowColumn(node->rows[row], column + 1, columns, is_null));
}

/* The cell of a row; false: there is none to ask about, because it is NULL, is stored outside its row, or is not computed */
bool
encdb_ahead_cell(const Ahead *node, int row, int column, PgsealBytes *cell, bool *is_null)
{
	Cell	   *held = Held(node, row, column, is_null);

	if (*is_null || held == NULL || VARATT_IS_EXTERNAL(held) || VARATT_IS_COMPRESSED(held))
		return false;
	*cell = CellBytes(held);
	return true;
}

/* Whether an argument is this column of the row that was given last */
bool
encdb_ahead_is_column(const Ahead *node, int column, NullableDatum argument)
{
	bool		is_null;
	Cell	   *held;

	if (column >= node->ncolumns)
		held = Held(node, node->current, column, &is_null);
	else
	{
		TupleTableSlot *slot = node->scan.ss.ss_ScanTupleSlot;

		if (column >= slot->tts_nvalid)
			return false;
		is_null = slot->tts_isnull[column];
		held = (Cell *) DatumGetPointer(slot->tts_values[column]);
	}
	return is_null == argument.isnull && (is_null || (held != NULL && held == (Cell *) DatumGetPointer(argument.value)));
}
