/*
 * row.h
 *	  A column of a row of a table or of a plan.
 *
 * heap_getattr also checks composite values against the current definition of their type, since the
 * minors of November 2026 by a function of the server that earlier minors do not have. The rows here
 * are not composite values. Without that call, one build loads into every minor of its major version.
 */
#ifndef ENCDB_ROW_H
#define ENCDB_ROW_H

#include "access/htup_details.h"

/* The value of a column, which is numbered from 1; the row's descriptor has it */
static inline Datum
EncdbRowColumn(HeapTuple row, int column, TupleDesc columns, bool *isnull)
{
	Assert(column > 0 && column <= columns->natts);
	if (column > (int) HeapTupleHeaderGetNatts(row->t_data))
		return getmissingattr(columns, column, isnull);
	return fastgetattr(row, column, columns, isnull);
}

#endif							/* ENCDB_ROW_H */
