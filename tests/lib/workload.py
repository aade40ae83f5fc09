"""A workload that leaves a canary in every kind of file that PostgreSQL writes user data to.

Users: tests/nothing-in-clear (no canary may show) and tests/file-classes (every file must be known).
Each label of Canaries has one line in RELATIONS or PLACES, which says in what files a plain server shows it: a test that
does not find it there is blind. CONF is the configuration that the workload needs.

Open sessions hold what exists only for the length of a query: sorts, hash joins, a transaction that a slot spills.
"""

import re
import subprocess

from waiting import eventually

CONF = """
autovacuum = off
shared_buffers = 4MB
wal_level = logical
max_prepared_transactions = 2
track_commit_timestamp = on
shared_preload_libraries = 'pg_stat_statements, pg_prewarm'
pg_stat_statements.track_utility = on
logical_decoding_work_mem = 64kB
max_replication_slots = 4
max_parallel_workers_per_gather = 2
"""

# label: the relation that holds it, as text that casts to regclass
RELATIONS = {
    "row": "'plain_rows'",
    "copied": "'copied'",
    "index": "'by_reverse'",
    "gin": "'by_words'",
    "brin": "'by_range'",
    "toast": "(SELECT reltoastrelid FROM pg_class WHERE relname = 'toasted')",
    "external": "(SELECT reltoastrelid FROM pg_class WHERE relname = 'external')",
    "view": "'stored_view'",
    "unlogged": "'unlogged'",
    "elsewhere": "'elsewhere'",
    "largeobject": "'pg_largeobject'",
    "name": "'pg_class'",
    "column": "'pg_attribute'",
    "comment": "'pg_description'",
    "source": "'pg_proc'",
    "statistic": "'pg_statistic'",
    "option": "'pg_user_mapping'",
    "role": "'pg_authid'",
    "sharedcomment": "'pg_shdescription'",
    "dbname": "'pg_database'",
}

# (label, pattern of the files that hold it); some canaries are looked for in two places
PLACES = [
    ("row", r"/pg_wal/[0-9A-F]{24}$"),
    ("copiedbase", r"/base/(?!1/|4/|5/)\d+/\d+$"),
    ("sort", r"/base/pgsql_tmp/pgsql_tmp\d+\.\d+$"),
    ("hash", r"/base/pgsql_tmp/pgsql_tmp\d+\.\d+$"),
    ("parallel", r"/base/pgsql_tmp/pgsql_tmp\d+\.\d+\.fileset/"),
    ("faraway", r"/pg_tblspc/\d+/PG_\w+/pgsql_tmp/pgsql_tmp\d+\.\d+$"),
    ("temporary", r"/base/\d+/t\d+_\d+$"),
    ("prepared", r"/pg_twophase/[0-9A-F]+$"),
    ("spill", r"/pg_replslot/spilling/.*\.spill$"),
    ("notify", r"/pg_notify/[0-9A-F]+$"),
    ("query", r"/pg_stat_tmp/pgss_query_texts\.stat$"),
    ("query", r"/pg_stat/pg_stat_statements\.stat$"),
]

SETUP = """
CREATE TABLESPACE apart LOCATION '{home}/apart';
CREATE EXTENSION pg_stat_statements;

CREATE TABLE plain_rows AS SELECT i, '{row}' || i AS word FROM generate_series(1, 200) i;
CREATE TABLE copied (word text);
COPY copied FROM stdin;
{copied}
\\.
CREATE TABLE backwards AS SELECT i, reverse('{index}' || i) AS word, reverse('{gin}' || i) AS w2,
    reverse('{brin}' || i) AS w3 FROM generate_series(1, 200) i;
CREATE INDEX by_reverse ON backwards (reverse(word));
CREATE INDEX by_words ON backwards USING gin ((ARRAY[reverse(w2)]));
CREATE INDEX by_range ON backwards USING brin (reverse(w3));
CREATE TABLE toasted (word text);
INSERT INTO toasted SELECT string_agg(md5(i::text), '') || '{toast}' FROM generate_series(1, 500) i;
CREATE TABLE external (word text);
ALTER TABLE external ALTER word SET STORAGE EXTERNAL;
INSERT INTO external VALUES (repeat('{external}', 500));
CREATE MATERIALIZED VIEW stored_view AS SELECT reverse(reverse('{view}') || i) AS word FROM generate_series(1, 9) i;
CREATE UNLOGGED TABLE unlogged (word text PRIMARY KEY);
INSERT INTO unlogged VALUES ('{unlogged}');
CREATE TABLE elsewhere TABLESPACE apart AS SELECT '{elsewhere}' AS word;
SELECT lo_from_bytea(0, '{largeobject}');
CREATE TABLE {name} (a int);
CREATE TABLE renamed ({column} int);
COMMENT ON TABLE renamed IS '{comment}';
CREATE FUNCTION secret() RETURNS text LANGUAGE sql AS $$ SELECT '{source}' $$;
CREATE TABLE common AS SELECT '{statistic}' AS word FROM generate_series(1, 100);
ANALYZE common;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER there FOREIGN DATA WRAPPER nowhere;
CREATE USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (password '{option}');
CREATE ROLE {role};
COMMENT ON ROLE {role} IS '{sharedcomment}';

CREATE TABLE one AS SELECT i, i || '{parallel}' AS word FROM generate_series(1, 50000) i;
CREATE TABLE other AS SELECT * FROM one;
ANALYZE one, other;

CREATE DATABASE another;
\\c another
CREATE TABLE t AS SELECT '{copiedbase}' AS word;
\\c postgres
CREATE DATABASE {dbname} TEMPLATE another STRATEGY file_copy;

SELECT pg_create_logical_replication_slot('spilling', 'test_decoding');
BEGIN;
INSERT INTO plain_rows VALUES (0, 'prepared');
PREPARE TRANSACTION '{prepared}';
"""

# Each is run in a session that stays open.
SPILLS = {
    "sort": "BEGIN; SET LOCAL work_mem = '64kB'; DECLARE c CURSOR FOR SELECT word FROM (SELECT i || '{sort}' AS word "
            "FROM generate_series(1, 20000) i OFFSET 0) s ORDER BY word; FETCH 1 FROM c;",
    "faraway": "BEGIN; SET LOCAL work_mem = '64kB'; SET LOCAL temp_tablespaces = apart; DECLARE c CURSOR FOR SELECT word "
               "FROM (SELECT i || '{faraway}' AS word FROM generate_series(1, 20000) i OFFSET 0) s ORDER BY word; "
               "FETCH 1 FROM c;",
    "hash": "BEGIN; SET LOCAL work_mem = '64kB'; SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = off; "
            "DECLARE c CURSOR FOR SELECT * FROM (SELECT i, i || '{hash}' AS word FROM generate_series(1, 20000) i OFFSET 0) a "
            "JOIN (SELECT i, i || '{hash}' AS word FROM generate_series(1, 20000) i OFFSET 0) b USING (i); FETCH 1 FROM c;",
    "temporary": "SET temp_buffers = 100; CREATE TEMPORARY TABLE temporary AS SELECT i || '{temporary}' AS word "
                 "FROM generate_series(1, 40000) i; SELECT 1;",
    "listener": "LISTEN news; BEGIN; SELECT 1;",
    "spill": "BEGIN; INSERT INTO plain_rows SELECT i, i || '{spill}' FROM generate_series(1, 20000) i; SELECT 1;",
}

PARALLEL = """SET work_mem = '64kB'; SET enable_mergejoin = off; SET enable_nestloop = off;
SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SELECT count(CASE WHEN one.word IS NOT NULL THEN pg_sleep(600) END) FROM one JOIN other USING (i);
"""

# A name, because constants are not kept.
QUERY = 'SELECT 1 AS "{query}";'

NOTIFICATIONS = "SELECT count(pg_notify('news', i || repeat('{notify}', 300))) FROM generate_series(1, 60) i;"


class Workload:
    """Runs once on a started cluster that has a tablespace directory `apart`."""

    def __init__(self, cluster, canaries):
        self.cluster = cluster
        self.canaries = canaries

    def run(self):
        """Leaves all canaries on disk, the short-lived ones in open sessions."""
        self.cluster.psql(self.sql(SETUP.replace("{home}", str(self.cluster.home))))
        for text in SPILLS.values():
            self.hold(self.sql(text))
        self.cluster.psql(self.sql(NOTIFICATIONS))
        self.hold_parallel()
        self.follow_slot()
        self.query()
        self.cluster.psql("CHECKPOINT")

    def query(self):
        """A query whose text pg_stat_statements keeps until a crash, else for ever."""
        self.cluster.psql(self.sql(QUERY))

    def sql(self, text):
        """Puts the words in the places of their labels."""
        return re.sub(r"\{(\w+)\}", lambda match: self.canaries[match[1]], text)

    def hold(self, sql):
        """Runs SQL in a session that stays open, up to its one row of output."""
        session = self.cluster.session()
        session.stdin.write(sql + "\n")
        line = session.stdout.readline()
        if not line or "ERROR" in line:
            raise AssertionError(f"no row but {line!r} from {sql}")

    def hold_parallel(self):
        """A parallel hash join whose processes sleep over their batches."""
        session = self.cluster.session()
        session.stdin.write(PARALLEL)
        asleep = "SELECT count(*) >= 2 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        eventually(lambda: self.cluster.psql(asleep) == "t", "no two processes sleep")

    def follow_slot(self):
        """A walsender that decodes the open transaction and spills it."""
        command = [self.cluster.pg / "pg_recvlogical", "-d", "postgres", "-S", "spilling", "--start", "-f", "/dev/null"]
        environment = {"PATH": "/usr/bin:/bin", **self.cluster.environment}
        receiver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.cluster.sessions.append(receiver)
        spilled = self.cluster.data / "pg_replslot/spilling"
        eventually(lambda: list(spilled.glob("*.spill")), "the slot does not spill", process=receiver)

    def places(self):
        """(label, pattern of the stored file's path) of every canary; asks the running server for its relations."""
        columns = ", ".join(f"pg_relation_filepath({relation}::regclass)" for relation in RELATIONS.values())
        paths = self.cluster.psql(f"SELECT {columns}").split("|")
        return [(label, re.escape("/" + path) + "$") for label, path in zip(RELATIONS, paths)] + PLACES
