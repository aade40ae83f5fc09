/*
 * refusal.c
 *	  What the library refuses, as PostgreSQL's errors.
 */
#include "encdb.h"

#include "miscadmin.h"

/* Raise the last refusal: its SQLSTATE and its sentence, see docs/encdb-errors.md */
void
encdb_refuse(void)
{
	PgsealRefusal refusal;
	const char *code = refusal.sqlstate;

	/*
	 * A call that was given up because the query is cancelled is no fault of the evaluator. An error follows in any case, which
	 * ends what a locked buffer holds off (errfinish() does the same).
	 */
	if (QueryCancelPending || ProcDiePending)
		InterruptHoldoffCount = 0;
	CHECK_FOR_INTERRUPTS();
	pgseal_refusal(&refusal);
	if (refusal.remedy == PGSEAL_REMEDY_REATTACH)
		encdb_forget_session();
	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4])),
			 errmsg("%s", refusal.message)));
}

/* Whether the call is worth another try */
bool
encdb_try_remedy(void)
{
	PgsealRefusal refusal;

	pgseal_refusal(&refusal);
	if (refusal.remedy != PGSEAL_REMEDY_LOAD_KEYS)
		return false;
	return encdb_load_keys();
}
