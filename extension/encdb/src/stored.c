/*
 * stored.c
 *	  Refuses in other expressions what plain.c refuses in queries: PostgreSQL plans these without the planner's hook.
 *
 * 1. Expressions that are stored (constraints, defaults, statistics and so on) are read from their catalog when they are
 *	  made or changed. PostgreSQL calls no hook when it executes them.
 * 2. The key of a partitioned table is stored after the hook for the table, so it is read after the statement.
 * 3. Expressions that a statement executes once and stores nowhere are read before the statement runs.
 * 4. pg_upgrade makes the old cluster's objects again: they are accepted.
 * 5. Views and rules are parts of queries when they are used, and are refused there.
 */
#include "encdb.h"
#include "row.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * The columns of a catalog that hold expressions of a class of objects. An object's row is found by the object's number, and
 * by the number of its part where the class has parts.
 */
typedef struct Trees
{
	Oid			class;
	Oid			catalog;
	Oid			index;
	AttrNumber	object;
	AttrNumber	part;
	AttrNumber	columns[2];
} Trees;

static const Trees stored[] = {
	{ConstraintRelationId, ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, 0, {Anum_pg_constraint_conbin}},
	{AttrDefaultRelationId, AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid, Anum_pg_attrdef_adnum,
	{Anum_pg_attrdef_adbin}},
	{TriggerRelationId, TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, 0, {Anum_pg_trigger_tgqual}},
	{StatisticExtRelationId, StatisticExtRelationId, StatisticExtOidIndexId, Anum_pg_statistic_ext_oid, 0,
	{Anum_pg_statistic_ext_stxexprs}},
	{RelationRelationId, IndexRelationId, IndexRelidIndexId, Anum_pg_index_indexrelid, 0,
	{Anum_pg_index_indexprs, Anum_pg_index_indpred}},
	{PolicyRelationId, PolicyRelationId, PolicyOidIndexId, Anum_pg_policy_oid, 0,
	{Anum_pg_policy_polqual, Anum_pg_policy_polwithcheck}},
	{TypeRelationId, TypeRelationId, TypeOidIndexId, Anum_pg_type_oid, 0, {Anum_pg_type_typdefaultbin}},
	{ProcedureRelationId, ProcedureRelationId, ProcedureOidIndexId, Anum_pg_proc_oid, 0,
	{Anum_pg_proc_proargdefaults, Anum_pg_proc_prosqlbody}},
};

static object_access_hook_type next_object_access = NULL;
static ProcessUtility_hook_type next_process_utility = NULL;

static const Trees *
TreesOfClass(Oid class)
{
	for (int i = 0; i < lengthof(stored); i++)
		if (stored[i].class == class)
			return &stored[i];
	return NULL;
}

/* The expressions in a row, as String nodes */
static List *
TreesInRow(const Trees *where, HeapTuple row, TupleDesc descriptor)
{
	List	   *trees = NIL;

	for (int i = 0; i < lengthof(where->columns); i++)
	{
		bool		null = true;
		Datum		tree = where->columns[i] ? EncdbRowColumn(row, where->columns[i], descriptor, &null) : 0;

		if (!null)
			trees = lappend(trees, makeString(TextDatumGetCString(tree)));
	}
	return trees;
}

/* The expressions of an object. The snapshot NULL is that of catalogs, under which the row is as it was before the change */
static List *
ReadTrees(const Trees *where, Oid object, int part, Snapshot snapshot)
{
	Relation	catalog = table_open(where->catalog, AccessShareLock);
	List	   *trees = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&keys[0], where->object, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	ScanKeyInit(&keys[1], where->part, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(part));
	scan = systable_beginscan(catalog, where->index, true, snapshot, where->part ? 2 : 1, keys);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row))
		trees = TreesInRow(where, row, RelationGetDescr(catalog));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return trees;
}

/*
 * Whether ALTER changes expressions of objects of this class without making them anew. pg_index is not read when a relation
 * changes: VACUUM FULL of a system catalog exchanges files at that moment.
 */
static bool
MayChange(Oid class)
{
	return class == PolicyRelationId || class == TypeRelationId;
}

static void
LookAtObject(ObjectAccessType access, Oid class, Oid object, int part)
{
	const Trees *where = TreesOfClass(class);
	ListCell   *cell;
	List	   *trees;

	if (!where || IsBinaryUpgrade)
		return;
	trees = ReadTrees(where, object, part, SnapshotSelf);
	/* An object that is only renamed keeps its expressions */
	if (trees == NIL || (access == OAT_POST_ALTER && equal(trees, ReadTrees(where, object, part, NULL))))
		return;
	foreach(cell, trees)
		encdb_plain_look(stringToNode(strVal(lfirst(cell))));
}

static void
EncdbStoredObjectAccess(ObjectAccessType access, Oid class, Oid object, int part, void *argument)
{
	if (next_object_access)
		next_object_access(access, class, object, part, argument);
	if (access == OAT_POST_CREATE || (access == OAT_POST_ALTER && MayChange(class)))
		LookAtObject(access, class, object, part);
}

/* An expression as the parser made it, over the columns of a table or over none */
static void
LookAtWritten(Node *written, Relation table, ParseExprKind kind, const char *query, QueryEnvironment *environment)
{
	ParseState *state = make_parsestate(NULL);

	state->p_sourcetext = query;
	state->p_queryEnv = environment;
	if (table)
		addNSItemToQuery(state, addRangeTableEntryForRelation(state, table, AccessShareLock, NULL, false, true),
						 false, true, true);
	encdb_plain_look(transformExpr(state, copyObject(written), kind));
	free_parsestate(state);
}

/* DoCopy() opens the table with this lock and analyses the expression before it checks permissions, too */
static void
LookAtCopy(CopyStmt *statement, const char *query, QueryEnvironment *environment)
{
	Relation	table;

	if (!statement->is_from || !statement->whereClause)
		return;
	table = table_openrv(statement->relation, RowExclusiveLock);
	LookAtWritten(statement->whereClause, table, EXPR_KIND_COPY_WHERE, query, environment);
	table_close(table, NoLock);
}

/* The expression that converts a column, or NULL */
static Node *
Using(AlterTableCmd *command)
{
	return command->subtype == AT_AlterColumnType ? castNode(ColumnDef, command->def)->raw_default : NULL;
}

/* Takes the lock and checks the permission as the statement does. PostgreSQL refuses it in a read-only transaction */
static Relation
OpenAltered(AlterTableStmt *statement)
{
	Oid			relation;

	if (XactReadOnly)
		return NULL;
	relation = AlterTableLookupRelation(statement, AlterTableGetLockLevel(statement->cmds));
	return OidIsValid(relation) ? relation_open(relation, NoLock) : NULL;
}

static void
LookAtUsing(AlterTableStmt *statement, const char *query, QueryEnvironment *environment)
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		Node	   *conversion = Using(lfirst_node(AlterTableCmd, cell));
		Relation	table = conversion ? OpenAltered(statement) : NULL;

		if (!table)
			continue;
		LookAtWritten(conversion, table, EXPR_KIND_ALTER_COL_TRANSFORM, query, environment);
		relation_close(table, NoLock);
	}
}

/* Bare constants, which most parameters are, are not analysed a second time */
static void
LookAtParameters(List *parameters, const char *query, QueryEnvironment *environment)
{
	ListCell   *cell;

	foreach(cell, parameters)
		if (!IsA(lfirst(cell), A_Const))
			LookAtWritten(lfirst(cell), NULL, EXPR_KIND_EXECUTE_PARAMETER, query, environment);
}

/* The statement that another one runs or explains, or NULL where that is a query */
static Node *
UtilityIn(Node *inner)
{
	return inner && IsA(inner, Query) ? ((Query *) inner)->utilityStmt : NULL;
}

static void
LookBefore(Node *statement, const char *query, QueryEnvironment *environment)
{
	if (statement == NULL)
		return;
	if (IsA(statement, CopyStmt))
		LookAtCopy((CopyStmt *) statement, query, environment);
	else if (IsA(statement, AlterTableStmt))
		LookAtUsing((AlterTableStmt *) statement, query, environment);
	else if (IsA(statement, CallStmt))
		encdb_plain_look((Node *) ((CallStmt *) statement)->funcexpr);
	else if (IsA(statement, ExecuteStmt))
		LookAtParameters(((ExecuteStmt *) statement)->params, query, environment);
	else if (IsA(statement, CreateTableAsStmt))
		LookBefore(UtilityIn(((CreateTableAsStmt *) statement)->query), query, environment);
	else if (IsA(statement, ExplainStmt))
		LookBefore(UtilityIn(((ExplainStmt *) statement)->query), query, environment);
}

/* The key of a new partitioned table */
static void
LookAtKey(CreateStmt *statement)
{
	Oid			relation = RangeVarGetRelid(statement->relation, AccessShareLock, true);
	Relation	table = OidIsValid(relation) ? relation_open(relation, NoLock) : NULL;

	if (!table)
		return;
	if (table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		encdb_plain_look((Node *) RelationGetPartitionKey(table)->partexprs);
	relation_close(table, NoLock);
}

static void
EncdbStoredUtility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
				   ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_process_utility ? next_process_utility : standard_ProcessUtility;
	Node	   *node = statement->utilityStmt;
	bool		has_key = IsA(node, CreateStmt) && ((CreateStmt *) node)->partspec && !IsBinaryUpgrade;

	LookBefore(node, query, environment);
	next(statement, query, read_only_tree, context, params, environment, dest, completion);
	if (has_key)
		LookAtKey((CreateStmt *) node);
}

void
encdb_stored_init(void)
{
	next_object_access = object_access_hook;
	object_access_hook = EncdbStoredObjectAccess;
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = EncdbStoredUtility;
}
