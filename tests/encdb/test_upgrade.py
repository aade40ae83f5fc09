#!/usr/bin/env python3
"""pg_upgrade of a database with encrypted columns to another major version: 15.10 to the one under test.

Both servers are copies below target/encdb. Afterwards the owner's statements give what they gave, by the indexes that came over, and
the extension's objects are those of a database that the new version made.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, INSTALLED, KEY, SEALED, TOOLS, VERSION, Confidential, programs, wrappers  # noqa: E402
from copied import wrappers_of_copy  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "target/encdb/15.10"
TYPES = {"int4": "g", "int8": "g * 1000000000000", "float4": "g / 4.0", "float8": "g / 8.0", "decimal": "g + 0.5", "bool": "g % 2 = 0",
         "date": "date '2024-01-01' + g", "timestamp": "timestamp '2024-01-01' + g * interval '1 hour'",
         "timestamptz": "timestamptz '2024-01-01 UTC' + g * interval '1 hour'", "uuid": "md5(g::text)::uuid",
         "bytea": "decode(md5(g::text), 'hex')", "text": "'Ada ' || g"}
SETUP = "CREATE TABLE t AS SELECT g AS id, " + ", ".join(f"encdb.enc_{name}_encrypt({value}) AS {name}_" for name, value in TYPES.items()) + """
    FROM generate_series(1, 300) g;
ALTER TABLE t ADD PRIMARY KEY (id), ADD COLUMN short enc_text(20), ADD COLUMN tags enc_text[], ADD CHECK (int4_ >= int4_);
UPDATE t SET short = text_, tags = ARRAY[text_, NULL];
CREATE DOMAIN email AS enc_text;
CREATE TYPE pair AS (a integer, b enc_int4);
CREATE TYPE span AS RANGE (subtype = enc_int4);
CREATE TABLE others (mail email, p pair, s span);
INSERT INTO others SELECT text_, ROW(id, int4_)::pair, span(int4_, NULL) FROM t WHERE id < 20;
CREATE UNIQUE INDEX t_int8 ON t (int8_);
CREATE INDEX t_text ON t (text_ COLLATE "C");
CREATE INDEX t_lower ON t (lower(text_));
CREATE INDEX t_hash ON t USING hash (date_);
CREATE INDEX t_trgm ON t USING gin (text_ enc_text_trgm_ops);
CREATE INDEX t_words ON t USING gin (text_ enc_text_words_ops);
CREATE INDEX t_tags ON t USING gin (tags);
CREATE STATISTICS t_statistics ON lower(text_), int4_ FROM t;
CREATE VIEW sums AS SELECT bool_, count(*), sum(int4_), avg(decimal_), stddev(int8_), max(text_), string_agg(text_, text_ ORDER BY id)
    FROM t GROUP BY bool_;
CREATE MATERIALIZED VIEW months AS SELECT date_trunc('month', timestamp_) AS month, min(text_) AS first FROM t GROUP BY 1;
CREATE FUNCTION found(wanted enc_text) RETURNS SETOF integer LANGUAGE sql BEGIN ATOMIC SELECT id FROM t WHERE text_ = wanted; END;
CREATE TABLE parts (c enc_int4) PARTITION BY HASH (c);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT int4_ FROM t;
"""
TEXT = "(SELECT encdb.enc_text_encrypt('{}', '|postgres|postgres|'))".format
ASKED = [
    "SELECT " + ", ".join(f"encdb.decrypt({name}_)" for name in TYPES) + ", encdb.decrypt(short), tags = ARRAY[text_, NULL] FROM t ORDER BY text_, id",
    "SELECT encdb.decrypt(sum), encdb.decrypt(avg), encdb.decrypt(stddev), encdb.decrypt(max), encdb.decrypt(string_agg) FROM sums ORDER BY bool_",
    "SELECT encdb.decrypt(month), encdb.decrypt(first) FROM months ORDER BY month",
    f"SELECT found({TEXT('Ada 77')})",
    f"SELECT id FROM t WHERE lower(text_) = {TEXT('ada 88')}",
    f"SELECT id FROM t WHERE text_ LIKE {TEXT('Ada 29%')} ORDER BY text_",
    f"SELECT id FROM t WHERE text_ LIKE {TEXT('%a 14%')} ORDER BY id",
    f"SELECT id FROM t WHERE text_ @@ {TEXT('ADA 14')}",
    f"SELECT id FROM t WHERE tags @> ARRAY[{TEXT('Ada 9')}]",
    "SELECT a.id FROM t a JOIN t b ON a.date_ = b.date_ AND a.int8_ = b.int8_ WHERE b.id = 200",
    "SELECT encdb.decrypt(mail), encdb.decrypt((p).b), encdb.decrypt(lower(s)) FROM others ORDER BY mail",
    "SELECT count(*) FROM parts_0; SELECT encdb.decrypt(max(c)) FROM parts",
]
SCANS = {"by indexes": "SET enable_seqscan = off;", "without": "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;"}
# Everything that belongs to the extension, by what is said of it in the catalogs.
OBJECTS = """
SELECT pg_describe_object(classid, objid, 0), md5(coalesce(
    (SELECT concat(p.prosrc, p.provolatile, p.proparallel, p.proisstrict, p.proleakproof, p.procost, p.prosupport, p.prorettype::regtype)
     FROM pg_proc p WHERE p.oid = objid AND classid = 'pg_proc'::regclass),
    (SELECT concat(o.oprcode, o.oprrest, o.oprjoin, o.oprcanmerge, o.oprcanhash) FROM pg_operator o WHERE o.oid = objid AND classid = 'pg_operator'::regclass),
    (SELECT concat(t.typlen, t.typinput, t.typanalyze, t.typmodin, t.typstorage, t.typalign) FROM pg_type t WHERE t.oid = objid AND classid = 'pg_type'::regclass),
    ''))
FROM pg_depend WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'encdb') ORDER BY 1
"""


@unittest.skipUnless(VERSION != "15" and (STAGE / BEFORE).exists(), "this is the version to upgrade from, or there is no such server")
class Upgrade(Confidential):
    def test_inline(self):
        self.upgrade(FORMS[0])

    def test_isolated(self):
        self.upgrade(FORMS[1], self.evaluator().socket)

    def upgrade(self, form, socket=""):
        old = self.before(form, socket)
        asked = {(sql, scans): self.as_owner(old, SCANS[scans] + sql) for sql in ASKED for scans in SCANS}
        for (sql, scans), answer in asked.items():
            self.assertEqual(answer, asked[sql, "without"], sql)
            self.assertNotEqual(answer, "", sql)
        old.stop()
        new = self.upgraded(old)
        for (sql, scans), answer in asked.items():
            with self.subTest(sql, scans=scans):
                self.assertEqual(self.as_owner(new, SCANS[scans] + sql), answer)
        self.used(new)
        new.psql("CREATE DATABASE fresh TEMPLATE template0")
        new.psql("CREATE EXTENSION encdb", db="fresh")
        self.assertEqual(new.psql(OBJECTS), new.psql(OBJECTS, db="fresh"))

    def before(self, form, socket):
        """A server of 15 with everything."""
        root = STAGE / BEFORE
        pg = root / (root / "bindir").read_text().strip()
        environment = {"ENCDB_OWNER": str(INSTALLED / "owner")}
        self.conf = f"encdb.evaluator = {form}\nencdb.socket = '{socket}'\nautovacuum = off\n"
        old = self.cluster("old", sealed=SEALED, pg=pg, wrappers=lambda it: wrappers_of_copy(it, root, name="before"), conf=self.conf,
                           environment=environment)
        old.init().start()
        old.psql("CREATE EXTENSION encdb")
        self.as_owner(old, KEY + SETUP)
        return old

    def upgraded(self, old):
        """The running server of the new version."""
        key = ("--copy-key-from", old.data / "pg_encryption/key.bin")
        new = self.cluster("new", sealed=SEALED, key=key, pg=programs(), wrappers=wrappers, conf=self.conf, environment=dict(old.environment))
        new.environment["PGHOST"] = str(new.home)
        new.init()
        new.run("pg_upgrade", "-b", old.bindir, "-B", new.bindir, "-d", old.data, "-D", new.data, "-U", "postgres", "-s", self.directory,
                cwd=self.directory)
        return new.start()

    def used(self, new):
        """Writes by every index, and what the new version has of its own to look at them."""
        self.as_owner(new, "INSERT INTO t SELECT id + 1000, int4_, int8_ + int8_ + int8_, " + ", ".join(f"{name}_" for name in list(TYPES)[2:]) +
                      ", short, tags FROM t WHERE id > 150; ANALYZE t; REFRESH MATERIALIZED VIEW months; REINDEX TABLE t; VACUUM t;")
        self.assertEqual(self.as_owner(new, f"SET enable_seqscan = off; SELECT id FROM t WHERE text_ = {TEXT('Ada 151')} ORDER BY id"), "151\n1151")
        new.psql("CREATE EXTENSION amcheck")
        self.as_owner(new, "SELECT bt_index_check('t_int8', true), bt_index_check('t_text', true)")


if __name__ == "__main__":
    main(__file__, [*TOOLS, *([BEFORE] if VERSION != "15" and (ROOT / BEFORE).exists() else [])])
