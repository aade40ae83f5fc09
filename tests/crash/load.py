"""The load of the crash loop: what clients do until the server is gone, and what they were told before.

A round has one pgbench (TPC-B) and a few psql clients. Each client runs a random script and notes on its output what the
server acknowledged, so that afterwards it is known what must be there:
    done N           transaction N of this client is committed
    prepared GID     the transaction is prepared; nobody finishes it in this round
    finishing GID    COMMIT PREPARED is on its way: it may or may not have happened
A line is written only after the server has answered without an error.

Invariants of the data, whatever the moment of a crash: the sums of pgbench's four tables are equal; each row of `toasted`
fits its digest; `acknowledged` has all that was acknowledged and at most one transaction more per client.
"""

import subprocess
from dataclasses import dataclass, field

from pgseal_test import base_environment

CLIENTS = 3
LOAD = "load"  # what the clients call themselves
TRANSACTIONS = 3000
SCALE = 2

SCHEMA = """
CREATE TABLE acknowledged (client int, number int, mark text, PRIMARY KEY (client, number));
CREATE TABLE indexed (id int PRIMARY KEY, a int, words text, at timestamptz DEFAULT now());
CREATE INDEX ON indexed (a);
CREATE INDEX ON indexed USING hash (words);
CREATE INDEX ON indexed USING gin (to_tsvector('simple', words));
CREATE INDEX ON indexed USING brin (at);
INSERT INTO indexed SELECT i, i, 'word' || i || ' {mark}' FROM generate_series(1, 3000) i;
CREATE TABLE toasted (id int PRIMARY KEY, body text, digest text);
ALTER TABLE toasted ALTER body SET STORAGE EXTERNAL;
CREATE TABLE two_phase (gid text PRIMARY KEY);
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY, b text);
CREATE SEQUENCE numbers;
CREATE TABLE elsewhere (id int PRIMARY KEY, b text) TABLESPACE away;
"""

# TRUNCATE of an unlogged table is never rolled back here. PostgreSQL keeps the new main fork until the next checkpoint
# (mdunlinkfork), drops the init fork at once, and does not flush the abort record: a crash in between replays the init fork
# alone, and recovery ends at "could not create file: File exists" (ResetUnloggedRelations). Plain clusters show it too.
#
# Statements of one transaction or more; {n} is a fresh number, {r} a random one below 3000, {mark} a canary.
PIECES = [
    "UPDATE indexed SET a = a + {r}, words = 'word{n} {mark}', at = now() WHERE id BETWEEN {r} AND {r} + 20;",
    "BEGIN; DELETE FROM indexed WHERE id = {r}; INSERT INTO indexed VALUES ({r}, {n}, '{mark}') ON CONFLICT DO NOTHING;"
    " COMMIT;",
    "INSERT INTO toasted SELECT {r}, b, md5(b) FROM (SELECT '{mark}' || string_agg(md5((i * {n})::text), '') AS b"
    " FROM generate_series(1, 40 + {r} % 900) i) s ON CONFLICT (id) DO UPDATE SET (body, digest) ="
    " (excluded.body, excluded.digest);",
    "DO $$ BEGIN FOR i IN 1..80 LOOP BEGIN UPDATE indexed SET a = i WHERE id = ({r} + i) % 3000;"
    " IF i % 3 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$;",
    "BEGIN; SELECT count(*) FROM (SELECT 1 FROM indexed WHERE id BETWEEN {r} AND {r} + 9 FOR KEY SHARE) s; SAVEPOINT a;"
    " UPDATE indexed SET a = {n} WHERE id BETWEEN {r} AND {r} + 9; ROLLBACK TO a;"
    " UPDATE indexed SET a = {n} WHERE id = {r}; COMMIT;",
    "INSERT INTO unlogged VALUES ({n}, '{mark}') ON CONFLICT DO NOTHING;",
    "SELECT count(*) FROM (SELECT i, md5(i::text) || '{mark}' AS m FROM generate_series(1, 20000) i ORDER BY m DESC) s;",
    "CREATE TEMP TABLE t{n} AS SELECT i, '{mark}' AS b FROM generate_series(1, 500) i;",
    "CREATE TABLE t{n}_{client} AS SELECT i, '{mark}' AS b FROM generate_series(1, 2000) i;"
    " CREATE INDEX ON t{n}_{client} (i, b); DROP TABLE t{n}_{client};",
    "BEGIN; CREATE TABLE t{n}_{client} (a int PRIMARY KEY); ROLLBACK;",
    "TRUNCATE unlogged;",
    "INSERT INTO elsewhere SELECT i, '{mark}' FROM generate_series({r}, {r} + 50) i ON CONFLICT (id) DO UPDATE SET b ="
    " '{mark}{n}';",
    "SELECT count(nextval('numbers')) FROM generate_series(1, 40);",
    "NOTIFY news, '{mark}{n}'; LISTEN news;",
    "UPDATE pg_description SET description = '{mark}{n}' WHERE objoid = 'indexed'::regclass;",
    "VACUUM indexed;",
    "VACUUM (FREEZE) toasted;",
    "CHECKPOINT;",
    "SELECT pg_switch_wal() IS NULL;",
    "REINDEX TABLE elsewhere;",
    "CLUSTER indexed USING indexed_pkey;",
]
# How often a piece is taken: the last ones stop everybody else for a while.
WEIGHTS = [8, 8, 6, 3, 6, 6, 1, 2, 2, 1, 1, 4, 4, 3, 2, 2, 1, 1.5, 0.5, 0.3, 0.1]

ACKNOWLEDGE = """{piece}
INSERT INTO acknowledged VALUES ({client}, {n}, '{mark}') RETURNING 'done ' || number;
"""
# PREPARE of a transaction that has failed (a lock timeout) is a rollback, and no error: ask the server what there is.
PREPARE = """BEGIN;
INSERT INTO two_phase VALUES ('{gid}');
UPDATE toasted SET digest = md5(body) WHERE id = {r};
PREPARE TRANSACTION '{gid}';
SELECT 'prepared ' || gid FROM pg_prepared_xacts WHERE gid = '{gid}';
"""
FINISH = """\\echo finishing {gid}
COMMIT PREPARED '{gid}';
"""


@dataclass
class Told:
    """What the clients of all rounds so far were told."""
    done: dict = field(default_factory=dict)  # client: last number
    prepared: set = field(default_factory=set)
    finishing: set = field(default_factory=set)

    def read(self, client, lines):
        for word, what in (line.split(" ", 1) for line in lines if line.startswith(("done ", "prepared ", "finishing "))):
            if word == "done":
                self.done[client] = int(what)
            elif word == "prepared":
                self.prepared.add(what)
            else:
                self.finishing.add(what)


class Load:
    """All clients of one round."""

    def __init__(self, cluster, number, random, mark, told, outputs=None):
        """The clients write what they are told below `outputs`, into files named by their numbers."""
        self.cluster, self.number, self.random, self.mark, self.told = cluster, number, random, mark, told
        self.outputs = outputs or cluster.home
        self.clients = {}

    def start(self):
        environment = {**base_environment(), **self.cluster.environment, "PGAPPNAME": LOAD}
        pgbench = [self.cluster.pg / "pgbench", "-n", "-c", "2", "-j", "2", "-T", "600"]
        self.pgbench = subprocess.Popen(pgbench, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for index in range(CLIENTS):
            client = self.number * CLIENTS + index
            script, output = self.cluster.home / f"client{client}.sql", self.outputs / str(client)
            script.write_text(self.script(client))
            psql = [self.cluster.pg / "psql", "-X", "-q", "-A", "-t", "-f", script]
            with open(output, "w") as file:
                self.clients[client] = subprocess.Popen(psql, env=environment, stdout=file, stderr=file), output

    def script(self, client):
        parts = ["SET work_mem = '64kB'; SET lock_timeout = '1s'; SET synchronous_commit = on;\n"]
        for number in range(1, TRANSACTIONS):
            values = {"n": number, "client": client, "r": self.random.randrange(3000), "mark": self.mark,
                      "gid": f"{self.mark}_{client}_{number}"}
            piece = self.random.choices(PIECES, WEIGHTS)[0].format(**values)
            parts.append(ACKNOWLEDGE.format(piece=piece, **values))
            if self.random.random() < 0.05:
                parts.append(PREPARE.format(**values))
                if self.random.random() < 0.5:
                    parts.append(FINISH.format(**values))
        return "".join(parts)

    def wait(self):
        """The server is gone; so are the clients then."""
        self.pgbench.wait(60)
        for psql, _ in self.clients.values():
            psql.wait(60)

    def finish(self):
        """Waits for the clients, and takes in what they were told."""
        self.wait()
        for client, (_, output) in self.clients.items():
            self.told.read(client, output.read_text().splitlines())
