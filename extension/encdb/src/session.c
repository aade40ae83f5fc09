/*
 * session.c
 *	  The way to the evaluator: who this backend is, and the messages it relays.
 *
 * A parallel worker is given its leader's session by the leader, which both
 * know from the lock group: nobody can feign that in SQL. Whose leader has no
 * session has none: a worker is background work only if its leader is.
 */
#include "encdb.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "access/xact.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/timestamp.h"

bool		encdb_attached = false;
uint64		encdb_epoch = 1;
TimestampTz encdb_statement = 0;

/* This backend, as others see it */
static PGPROC *leading = NULL;

static ProcessUtility_hook_type next_process_utility = NULL;

/* The database that grants may be limited to: cluster, then database */
static void
DatabaseIdentity(uint8 *identity)
{
	uint64		cluster = GetSystemIdentifier();
	uint32		database = MyDatabaseId;

	memset(identity, 0, 16);
	for (int i = 0; i < 8; i++)
		identity[i] = (uint8) (cluster >> (8 * i));
	for (int i = 0; i < 4; i++)
		identity[8 + i] = (uint8) (database >> (8 * i));
}

/* A walsender takes SQL from its client; everything else that is not a client's has no client */
static bool
HasClient(BackendType type)
{
	return type == B_BACKEND || type == B_WAL_SENDER;
}

/* The entry of a process in the list of backends, or NULL */
static PgBackendStatus *
StatusOf(PGPROC *proc)
{
#if PG_VERSION_NUM >= 170000
	return pgstat_get_beentry_by_proc_number(GetNumberFromPGProc(proc));
#elif PG_VERSION_NUM >= 160000
	return pgstat_get_beentry_by_backend_id(proc->backendId);
#else
	/* Before 16 an entry is found by its position, which is the backend ID only while no lower ID is free */
	for (int position = 1; position <= pgstat_fetch_stat_numbackends(); position++)
	{
		PgBackendStatus *status = pgstat_fetch_stat_beentry(position);

		if (status && status->st_procpid == proc->pid)
			return status;
	}
	return NULL;
#endif
}

/* What the list of backends says of a parallel worker's leader; NULL if that is gone */
PgBackendStatus *
encdb_leader_status(void)
{
	PGPROC	   *leader = MyProc->lockGroupLeader;
	PgBackendStatus *status = leader ? StatusOf(leader) : NULL;

	return status && status->st_procpid == leader->pid ? status : NULL;
}

/* As whom a parallel worker speaks */
static PgsealPeer
PeerOfWorker(void)
{
	PgBackendStatus *leader = encdb_leader_status();

	return !leader || HasClient(leader->st_backendType) ? PGSEAL_PARALLEL_WORKER : PGSEAL_BACKGROUND;
}

static PgsealPeer
EncdbSessionPeer(void)
{
	if (IsParallelWorker())
		return PeerOfWorker();
	/* Single-user mode has the user who started it */
	return HasClient(MyBackendType) || !IsUnderPostmaster ? PGSEAL_CLIENT : PGSEAL_BACKGROUND;
}

/*
 * Whether a process is a parallel worker of this backend. The library asks in
 * a thread of its own, so this reads shared memory and does nothing else. The
 * process has connected to us and waits: what PostgreSQL wrote of it is there.
 * A slot whose process ended may keep its number, but not the latch's.
 */
static int
EncdbIsWorker(int process)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		volatile PGPROC *proc = &ProcGlobal->allProcs[i];

		if (proc->pid == process && proc->procLatch.owner_pid == process && proc != leading && proc->lockGroupLeader == leading)
			return process > 0;
	}
	return 0;
}

/* The leader's side of where it meets its workers, and theirs */
static void
SetLeader(PgsealAttach *attach)
{
	PgBackendStatus *leader = IsParallelWorker() ? encdb_leader_status() : NULL;

	StaticAssertStmt(sizeof(attach->nonce) == MOCK_AUTH_NONCE_LEN, "the nonce of a cluster");
	memcpy(attach->nonce, GetMockAuthenticationNonce(), sizeof(attach->nonce));
	attach->leader = leader ? leader->st_procpid : MyProcPid;
	attach->leader_started = leader ? leader->st_proc_start_timestamp : MyStartTimestamp;
	attach->is_worker = EncdbIsWorker;
	leading = MyProc;
}

bool
encdb_attach(void)
{
	PgsealAttach attach = {.peer = EncdbSessionPeer(),.cancel = &QueryCancelPending,.die = &ProcDiePending};

	if (encdb_evaluator == EVALUATOR_ISOLATED)
		attach.socket = encdb_socket;
	DatabaseIdentity(attach.database);
	/* That of the connection, whatever role it has been set to; a worker has its leader's */
	attach.role = MyProc->roleId;
	SetLeader(&attach);
	if (pgseal_attach(&attach) != 0)
		return false;
	encdb_attached = true;
	encdb_new_statement();
	return true;
}

/* Grants and sessions expire: what holds is looked at once a statement */
void
encdb_new_statement(void)
{
	encdb_statement = GetCurrentStatementStartTimestamp();
	encdb_epoch++;
	pgseal_set_time(timestamptz_to_time_t(GetCurrentTimestamp()));
}

/* Called when the settings that led to the evaluator change */
void
encdb_forget_session(void)
{
	if (encdb_attached)
		pgseal_detach();
	encdb_attached = false;
	encdb_epoch++;
}

/*
 * DISCARD ALL makes a connection as if it were new: a pool hands it to somebody
 * else then, who is not to have the session of the one who had it before.
 */
static void
EncdbProcessUtility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *node = statement->utilityStmt;
	bool		all = IsA(node, DiscardStmt) && ((DiscardStmt *) node)->target == DISCARD_ALL;
	ProcessUtility_hook_type next = next_process_utility ? next_process_utility : standard_ProcessUtility;

	next(statement, query, read_only_tree, context, params, environment, dest, completion);
	if (all)
		encdb_forget_session();
}

void
encdb_session_init(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = EncdbProcessUtility;
}

/* The session goes on without its workers, whose own refusal does not say why */
static void
WarnOfWorkers(void)
{
	const char *reason = pgseal_warning();

	if (reason)
		ereport(LOG, (errmsg("encdb: parallel workers of this backend have no session and are refused: %s", reason)));
}

/* encdb_process_message(bytea): what client and evaluator say to each other */
PG_FUNCTION_INFO_V1(encdb_process_message);
Datum
encdb_process_message(PG_FUNCTION_ARGS)
{
	bytea	   *message = PG_GETARG_BYTEA_PP(0);
	PgsealBytes answer;
	Datum		result;
	int			opened;

	if (!Attached() || pgseal_message(CellBytes(message), &answer, &opened) != 0)
		encdb_refuse();
	encdb_epoch++;
	result = encdb_cell_datum(answer);
	WarnOfWorkers();
	if (opened && !encdb_load_keys())
		encdb_refuse();
	return result;
}

/* encdb.database_id(): what a grant for this database alone names */
PG_FUNCTION_INFO_V1(encdb_database_id);
Datum
encdb_database_id(PG_FUNCTION_ARGS)
{
	uint8		identity[16];

	DatabaseIdentity(identity);
	return encdb_cell_datum((PgsealBytes) {identity, sizeof(identity)});
}

/* encdb.requests(): what this session has asked the evaluator's process, inline nothing */
PG_FUNCTION_INFO_V1(encdb_requests);
Datum
encdb_requests(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) pgseal_requests());
}
