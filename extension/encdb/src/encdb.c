/*
 * encdb.c
 *	  The module: its settings.
 *
 * Nothing is reached for at load, so that the library may be preloaded or not.
 */
#include "deferred.h"

#include "utils/guc.h"

PG_MODULE_MAGIC;

/* The library may be loaded in the middle of a parallel operation, by what asks for an operator */
#ifdef GUC_ALLOW_IN_PARALLEL
#define FLAGS	GUC_ALLOW_IN_PARALLEL
#else
#define FLAGS	0
#endif

int			encdb_evaluator = EVALUATOR_ISOLATED;
char	   *encdb_socket = NULL;
int			encdb_page_requests = PAGE_REQUESTS_AUTO;

static const struct config_enum_entry evaluators[] = {
	{"inline", EVALUATOR_INLINE, false},
	{"isolated", EVALUATOR_ISOLATED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry page_requests[] = {
	{"auto", PAGE_REQUESTS_AUTO, false},
	{"on", PAGE_REQUESTS_ON, false},
	{"off", PAGE_REQUESTS_OFF, false},
	{NULL, 0, false}
};

/*
 * Where the evaluator is was decided when the session began to use it. These are
 * called for every reading of the configuration, mostly with the value that is.
 */
static void
AssignEvaluator(int newval, void *extra)
{
	if (newval == encdb_evaluator)
		return;
	encdb_forget_session();
}

static void
AssignSocket(const char *newval, void *extra)
{
	if (encdb_evaluator == EVALUATOR_INLINE || (encdb_socket && strcmp(newval, encdb_socket) == 0))
		return;
	encdb_forget_session();
}

void		_PG_init(void);

void
_PG_init(void)
{
	if (pgseal_interface() != PGSEAL_INTERFACE)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the parts of encdb come from different builds"),
				 errhint("Build and install the extension again with make install-extensions.")));
	DefineCustomEnumVariable("encdb.evaluator", "Where cells are opened.",
							 "inline: in the backend; isolated: in the process behind encdb.socket.",
							 &encdb_evaluator, EVALUATOR_ISOLATED, evaluators,
							 PGC_SUSET, FLAGS, NULL, AssignEvaluator, NULL);
	DefineCustomStringVariable("encdb.socket", "The socket of pgseal-evaluator.", NULL,
							   &encdb_socket, "/run/pgseal/evaluator.sock",
							   PGC_SUSET, FLAGS, NULL, AssignSocket, NULL);
	DefineCustomEnumVariable("encdb.page_requests", "Whether a page is compared by one request.",
							 "auto: at once in the isolated form, and inline when a scan stays on a page.",
							 &encdb_page_requests, PAGE_REQUESTS_AUTO, page_requests,
							 PGC_USERSET, FLAGS, NULL, NULL, NULL);
	DefineCustomBoolVariable("encdb.read_ahead", "Whether scans read rows ahead, for one request about many.",
							 "In the isolated form; EXPLAIN shows it.",
							 &encdb_read_ahead, true, PGC_USERSET, FLAGS, NULL, NULL, NULL);
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved("encdb");
#endif
	encdb_collation_init();
	encdb_convert_init();
	encdb_session_init();
	encdb_distinct_init();
	encdb_plain_init();
	encdb_plain_open_init();
	encdb_stored_init();
	encdb_analyze_init();
	encdb_ahead_init();
	encdb_deferred_init();
	encdb_jit_init();
	encdb_presorted_init();
}
