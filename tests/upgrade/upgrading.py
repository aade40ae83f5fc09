"""What the tests of pg_upgrade share: an old cluster with something in every place that an upgrade touches, pg_upgrade
itself, and what must be true of both clusters afterwards.

`Content` fills the old cluster. Rows that nobody read before the upgrade carry no hint bits: only pg_xact says which of
them count, and for one row only pg_multixact. Canaries stand in rows, in a table's name, in planner statistics, and in a
tablespace; a password's hash is looked for as it is.
"""

import base64
import re

from pgseal_test import PG, PGSEAL, Canaries, Case, files_below, read_raw, run, twins

PASSWORD_HASH = "md5a3556571e93b0d20722ba62be61e8c2d"
REFUSED = "do not have the same key, so they cannot share files"

LABELS = {"row", "toast", "largeobject", "name", "statistic"}

FILL = """
CREATE ROLE reader LOGIN;
SET password_encryption = md5;
ALTER ROLE reader PASSWORD '{hash}';
CREATE TABLE plain_rows AS SELECT a, '{row}' || a AS word FROM generate_series(1, 20000) a;
CREATE INDEX by_a ON plain_rows (a);
CREATE INDEX by_word ON plain_rows (word);
CREATE TABLE toasted (word text);
ALTER TABLE toasted ALTER word SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT string_agg(md5(i::text), '') || '{toast}' FROM generate_series(1, 900) i;
SELECT lo_from_bytea(4711, '{largeobject}');
CREATE TABLE {name} (a int);
CREATE TABLE common AS SELECT '{statistic}' AS word FROM generate_series(1, 100);
ANALYZE common;
CREATE SEQUENCE numbers;
SELECT setval('numbers', 42);
CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS a;
CREATE DATABASE another;
CREATE TABLE counters (a int PRIMARY KEY, n int);
INSERT INTO counters VALUES (1, 0);
BEGIN;
SELECT * FROM counters FOR KEY SHARE;
SAVEPOINT inner_one;
UPDATE counters SET n = 1;
COMMIT;
CREATE TABLE votes (a int);
"""
APART = """
CREATE TABLESPACE apart LOCATION '{home}/apart';
CREATE TABLE elsewhere TABLESPACE apart AS SELECT '{elsewhere}' AS word FROM generate_series(1, 500);
CREATE INDEX elsewhere_word ON elsewhere (word) TABLESPACE apart;
CREATE DATABASE lodger TABLESPACE apart;
"""
VOTES = "".join(f"INSERT INTO votes VALUES ({i}); BEGIN; INSERT INTO votes VALUES (-{i}); ROLLBACK;\n" for i in range(1, 61))

ROWS = """
SELECT count(*), sum(a) FROM votes;
SELECT n FROM counters;
SELECT count(*), sum(a), md5(string_agg(word, ',' ORDER BY a)) = md5('{words}') FROM plain_rows;
SELECT count(*) FROM plain_rows WHERE word = '{row}77';
SELECT length(word), right(word, 10) = right('{toast}', 10) FROM toasted;
SELECT lo_get(4711) = '{largeobject}';
SELECT count(*) FROM {name};
SELECT last_value FROM numbers;
SELECT rolpassword = '{hash}' FROM pg_authid WHERE rolname = 'reader';
"""


class Content:
    """What the old cluster holds."""

    def __init__(self, apart):
        self.canaries = Canaries()
        self.apart = apart

    def fill(self, cluster):
        """Fills a started cluster; nobody may read `votes` and `counters` before the upgrade."""
        cluster.psql(self.sql(FILL + (APART if self.apart else ""), cluster) + VOTES)

    def sql(self, text, cluster):
        """With the words of this content in the places of their labels."""
        words = ",".join(f"{self.canaries['row']}{a}" for a in range(1, 20001))
        own = {"home": str(cluster.home), "hash": PASSWORD_HASH, "words": words}
        return re.sub(r"\{(\w+)\}", lambda match: own.get(match[1]) or self.canaries[match[1]], text)

    def rows(self, cluster):
        """The rows that a started cluster shows, and what they must be."""
        shown = cluster.psql(self.sql(ROWS, cluster)).split("\n")
        expected = ["60|1830", "1", "20000|200010000|t", "1", f"{900 * 32 + len(self.canaries['toast'])}|t", "t", "0", "42", "t"]
        if self.apart:
            shown.append(cluster.psql("SELECT count(DISTINCT word), count(*) FROM elsewhere"))
            expected.append("1|500")
        return shown, expected


class UpgradeCase(Case):
    """One upgrade, from the making of the old cluster to the checks of the new one."""

    def old_cluster(self, pg=PG, apart=False, **options):
        """A filled and stopped cluster, with its Content."""
        tablespaces = ("apart",) if apart else ()
        old = self.cluster("old", pg=pg, tablespaces=tablespaces, conf="autovacuum = off", **options).init().start()
        content = Content(apart)
        content.fill(old)
        old.stop()
        return old, content

    def pg_upgrade(self, old, new, *options, check=True, environment=None):
        """The wrapper of the new version's pg_upgrade: it serves plain clusters as well."""
        bindir = twins(new.pg)
        command = [bindir / "pg_upgrade", "-b", old.bindir, "-B", bindir, "-d", old.data, "-D", new.data, "-U", "postgres",
                   "-s", self.directory, *options]
        return run(command, environment, check=check, cwd=self.directory)

    def upgraded(self, old, new, *options, environment=None):
        """Upgrades, and sees that the commit logs came over. 19 writes those of multixacts anew, in another form: only the
        rows show then that they are right."""
        versions = [int((cluster.data / "PG_VERSION").read_text()) for cluster in (old, new)]
        areas = ["pg_xact"] if versions[0] < 19 <= versions[1] else ["pg_xact", "pg_multixact/offsets", "pg_multixact/members"]
        logs = [(area, self.clear_log(old, area)) for area in areas]
        self.pg_upgrade(old, new, *options, environment=environment)
        for area, bytes_of_old in logs:
            self.assertGreater(len(bytes_of_old.strip(b"\0")), 0, area)
            self.assertTrue(self.clear_log(new, area).startswith(bytes_of_old.rstrip(b"\0")), area)

    def clear_log(self, cluster, area):
        """The first segment as PostgreSQL sees it, up to the last whole byte that the cluster has used."""
        control = cluster.run("pg_controldata", "-D", cluster.data).stdout
        offset = 8 if int((cluster.data / "PG_VERSION").read_text()) >= 19 else 4
        name, unit = {"pg_xact": ("NextXID", 0.25), "pg_multixact/offsets": ("NextMultiXactId", offset),
                      "pg_multixact/members": ("NextMultiOffset", 5)}[area]
        used = int(re.search(rf"{name}: *(?:\d+:)?(\d+)$", control, re.M)[1])
        first = min((cluster.data / area).iterdir())
        return self.clear_bytes(cluster, first)[:int(used * unit)]

    def clear_bytes(self, cluster, file):
        """A file as PostgreSQL sees it."""
        command = [PGSEAL, "exec", "-D", cluster.data, "--", "base64", file] if cluster.sealed else ["base64", file]
        return base64.b64decode(run(command).stdout)

    def check_upgraded(self, new, content):
        """Rows, indexes against tables, every page's checksum, and for a sealed cluster every file."""
        new.start()
        self.check_rows(new, content)
        new.run("pg_amcheck", "--all", "--install-missing", "--heapallindexed")
        new.stop()
        new.run("pg_checksums", "--check", "-D", new.data)
        if new.sealed:
            run([PGSEAL, "verify", "-D", new.data])

    def check_rows(self, cluster, content):
        """The rows of a started cluster."""
        shown, expected = content.rows(cluster)
        self.assertEqual(shown, expected)

    def check_nothing_in_clear(self, content, *places, but=()):
        """No canary and no password's hash; `but` are labels that may show in pg_upgrade's logs."""
        for label, files in content.canaries.found(*places).items():
            self.assertIn(label, but)
            self.assertEqual([file for file in files if "/log/" not in file], [], label)
        hashed = [file for file in files_below(*places) if PASSWORD_HASH.encode() in read_raw(file)]
        self.assertEqual(hashed, [])

    def check_refused(self, old, new, *options, sentence=REFUSED, environment=None):
        """pg_upgrade says no, the old cluster works, and the new one is still new. Nobody reads what has no hint bits."""
        done = self.pg_upgrade(old, new, *options, check=False, environment=environment)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        said = done.stdout + done.stderr
        self.assertIn(sentence, said)
        self.assertEqual(said.count("pgseal: "), int(sentence == REFUSED), said)
        self.assertTrue((old.data / "global/pg_control").exists())
        old.start()
        self.assertEqual(old.psql("SELECT count(*) FROM plain_rows"), "20000")
        old.stop()
