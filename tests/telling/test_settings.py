#!/usr/bin/python3
"""A sealed server says that it is one: by settings that nobody can change, and by a line in its log."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, PGSEAL, Case, main, major_version, run

NAMES = ["pgseal.key_id", "pgseal.sealed", "pgseal.version"]
LINE = re.compile(r"LOG:  pgseal: sealed cluster, key id ([0-9a-f]{32}), cluster id ([0-9a-f]{32}), "
                  r"opened by slot 1 \(plain\), library (\S+ \(commit .*\))$", re.MULTILINE)
REFUSED = "parameter \"pgseal.sealed\" cannot be changed"


class Telling(Case):
    def values(self, cluster, **options):
        return [cluster.psql(f"SHOW {name}", **options) for name in NAMES]

    def status(self, cluster):
        """What `pgseal status` says, by the names of its rows."""
        text = run([PGSEAL, "status", "-D", cluster.data]).stdout
        return dict(re.split(r":\s+", line, maxsplit=1) for line in text.splitlines())

    def assert_tells(self, cluster, **options):
        status = self.status(cluster)
        self.assertEqual(self.values(cluster, **options), [status["key id"], "on", status["server library"]])


class Settings(Telling):
    def test_every_session_sees_them(self):
        cluster = self.cluster().init().start()
        cluster.psql("CREATE ROLE nobody LOGIN")
        self.assert_tells(cluster)
        self.assert_tells(cluster, user="nobody")
        rows = cluster.psql("SELECT name, vartype, context, source, category, boot_val = setting FROM pg_settings "
                            "WHERE name ~ '^pgseal' ORDER BY 1", user="nobody")
        self.assertEqual(rows.splitlines(), [
            f"{name}|{'bool' if name == 'pgseal.sealed' else 'string'}|internal|default|Customized Options|t" for name in NAMES])
        self.assertEqual(cluster.psql("SELECT count(*) FROM pg_show_all_settings() WHERE name ~ '^pgseal'"), "3")

    def test_a_parallel_worker_sees_them(self):
        cluster = self.cluster().init().start()
        cluster.psql("CREATE TABLE t AS SELECT 1 FROM generate_series(1, 10000)")
        force = "force_parallel_mode" if major_version() < 16 else "debug_parallel_query"
        cluster.psql("CREATE FUNCTION f() RETURNS text PARALLEL SAFE LANGUAGE sql AS $$ SELECT "
                     "current_setting('pgseal.sealed') || (pg_backend_pid() <> current_setting('x.leader')::int) $$")
        said = cluster.psql(f"SELECT set_config('x.leader', pg_backend_pid()::text, false); SET {force} = on; "
                            "SELECT f() FROM t LIMIT 1")
        self.assertEqual(said.splitlines()[-1], "ontrue")

    def test_nobody_can_set_them(self):
        cluster = self.cluster().init().start()
        for sql in ["SET pgseal.sealed = off", "SET LOCAL pgseal.sealed = off", "ALTER SYSTEM SET pgseal.sealed = off",
                    "ALTER ROLE postgres SET pgseal.sealed = off", "ALTER DATABASE postgres SET pgseal.sealed = off",
                    "SELECT set_config('pgseal.sealed', 'off', false)", "RESET pgseal.sealed",
                    "UPDATE pg_settings SET setting = 'off' WHERE name = 'pgseal.sealed'",
                    "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET pgseal.sealed = off AS 'SELECT 1'; SELECT f()"]:
            with self.subTest(sql):
                cluster.psql(sql, error=REFUSED)
        cluster.environment["PGOPTIONS"] = "-c pgseal.sealed=off"
        cluster.psql("SELECT 1", error=REFUSED)
        del cluster.environment["PGOPTIONS"]
        self.assert_tells(cluster)

    def test_files_and_command_line_change_nothing(self):
        cluster = self.cluster().init()
        cluster.configure("pgseal.sealed = off\npgseal.key_id = 'x'")
        cluster.start("-c", "pgseal.version=9")
        self.assert_tells(cluster)
        self.assertIn(REFUSED, cluster.log())
        cluster.psql("SELECT pg_reload_conf()")
        self.assert_tells(cluster)

    def test_what_a_plain_cluster_had_set_changes_nothing(self):
        cluster = self.cluster(sealed=False, conf="wal_log_hints = on").init().start()
        cluster.psql("ALTER ROLE postgres SET pgseal.sealed = off; ALTER DATABASE postgres SET pgseal.key_id = 'x'")
        cluster.stop()
        run([PGSEAL, "seal", "-D", cluster.data, "--no-key-wrap"])
        sealed = self.cluster("wrapped")
        sealed.data, sealed.home = cluster.data, cluster.home
        sealed.environment["PGHOST"] = str(cluster.home)
        sealed.start()
        self.assert_tells(sealed)
        self.assertIn(REFUSED, sealed.log())

    def test_after_a_crash_of_a_process(self):
        cluster = self.cluster().init().start()
        session = cluster.session()
        session.stdin.write("SELECT pg_backend_pid();\n")
        run(["kill", "-9", session.stdout.readline().strip()])
        for _ in range(1000):
            if cluster.log().count("ready to accept connections") == 2:
                break
            run(["sleep", "0.02"])
        self.assert_tells(cluster)
        self.assertEqual(len(LINE.findall(cluster.log())), 1)

    def test_a_single_user_sees_them(self):
        cluster = self.cluster().init()
        done = cluster.run("postgres", "--single", "-D", cluster.data, "postgres", input="SHOW pgseal.sealed\n")
        self.assertIn('pgseal.sealed = "on"', done.stdout)
        self.assertNotIn("sealed cluster", done.stdout + done.stderr)


class Log(Telling):
    def test_one_line_at_the_start(self):
        cluster = self.cluster().init().start()
        (key, cluster_id, version), = LINE.findall(cluster.log())
        status = self.status(cluster)
        self.assertEqual((key, cluster_id, version), (status["key id"], status["cluster id"], status["server library"]))
        line = LINE.search(cluster.log())
        self.assertLess(line.start(), cluster.log().index("starting PostgreSQL"))

    def test_the_collector_has_it_too(self):
        conf = "logging_collector = on\nlog_directory = 'log'\nlog_filename = 'l'\nlog_destination = 'csvlog,stderr'"
        cluster = self.cluster(conf=conf).init().start()
        self.assertEqual(len(LINE.findall((cluster.data / "log/l").read_text())), 1)
        self.assertEqual((cluster.data / "log/l.csv").read_text().count("pgseal: sealed cluster"), 1)
        self.assertNotIn("sealed cluster", cluster.log())

    def test_the_slot_that_opened(self):
        environment = {"PGSEAL_PASSPHRASE_FILE": str(self.directory / "passphrase")}
        (self.directory / "passphrase").write_text("correct horse battery staple\n")
        cluster = self.cluster(key=("--key-passphrase",), environment=environment).init().start()
        self.assertIn("opened by slot 1 (passphrase), library", cluster.log())


class Plain(Telling):
    def test_a_plain_cluster_under_a_wrapper_is_not_sealed(self):
        cluster = self.cluster(sealed=False).init()
        cluster.bindir = self.cluster("other").bindir
        cluster.start()
        key, sealed, version = self.values(cluster)
        self.assertEqual((key, sealed), ("", "off"))
        self.assertRegex(version, r"\(commit ")
        cluster.psql("SET pgseal.sealed = on", error=REFUSED)
        self.assertNotIn("pgseal:", cluster.log())

    def test_without_the_library_there_are_none(self):
        cluster = self.cluster(sealed=False).init().start()
        cluster.psql("SHOW pgseal.sealed", error="unrecognized configuration parameter")


class Modes(Telling):
    """What a server does that is no server stays as it was."""

    def test_describe_config_and_one_setting(self):
        cluster = self.cluster().init()
        for arguments in [["--describe-config"], ["-C", "wal_segment_size", "-D", cluster.data]]:
            done = cluster.run("postgres", *arguments)
            self.assertNotIn("pgseal", done.stdout + done.stderr)
        plain = run([PG / "postgres", "--describe-config"]).stdout
        self.assertEqual(cluster.run("postgres", "--describe-config").stdout, plain)


if __name__ == "__main__":
    unittest.util._MAX_LENGTH = 2000
    main(__file__)
