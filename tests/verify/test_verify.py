"""`pgseal verify` and `pgseal audit` on real clusters: no false alarm, and no damage or clear byte missed.

A sealed cluster with every kind of file that survives a stop, and its plain reference with the same rows.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Canaries, Case, base_environment, files_below, main, run
from waiting import eventually

PAGE = 8192
CONF = "wal_level = logical\nmax_prepared_transactions = 2\n"


class Verify(Case):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def loaded(self, name="main", **options):
        """A running cluster with tables, indexes, TOAST, a tablespace, a slot and a prepared transaction."""
        cluster = self.cluster(name, conf=CONF, tablespaces=["space"], **options).init().start()
        word = self.canaries["row"]
        cluster.psql(f"""
            SELECT pg_create_logical_replication_slot('s', 'test_decoding');
            CREATE TABLESPACE space LOCATION '{cluster.home}/space';
            CREATE TABLE rows TABLESPACE space AS SELECT i, '{word}' || i AS t FROM generate_series(1, 20000) i;
            CREATE INDEX ON rows (t); CREATE INDEX ON rows USING hash (t); CREATE INDEX ON rows USING brin (i);
            CREATE TABLE wide AS SELECT string_agg(sha256(i::text::bytea), '') AS b FROM generate_series(1, 4000) i;
            DELETE FROM rows WHERE i % 3 = 0;
            VACUUM rows;
            BEGIN; INSERT INTO rows VALUES (0, '{word}'); PREPARE TRANSACTION '{word}';
            CHECKPOINT;""")
        return cluster

    def verify(self, cluster, code, *options):
        """The report of `pgseal verify --json`, which must end with `code`."""
        done = run([PGSEAL, "verify", "-D", cluster.data, "--json", *options], check=False)
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return json.loads(done.stdout)

    def audit(self, cluster, code):
        """The hits of `pgseal audit --json`, which must end with `code`."""
        command = [PGSEAL, "audit", cluster.data, "--canary", self.canaries.mark, "--json"]
        done = run(command, check=False)
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return json.loads(done.stdout)["hits"]

    def test_a_good_cluster_has_no_findings(self):
        cluster = self.loaded()
        cluster.stop()
        report = self.verify(cluster, 0)
        self.assertEqual((report["bad"], report["unknown"], report["odd"]), ([], [], []))
        self.assertTrue(report["shut_down"] and report["data_checksums"])
        sizes = {path: path.stat().st_size for path in files_below(cluster.data)}
        read = report["total"]["files"] + report["clear_files"] + report["skipped_files"]
        self.assertEqual(read, len(sizes))

    def test_damage_is_named(self):
        cluster = self.loaded()
        name = cluster.psql("SELECT pg_relation_filepath('rows')")
        cluster.stop()
        with open(cluster.data / name, "r+b") as file:
            file.seek(7 * PAGE + 5000)
            byte = file.read(1)
            file.seek(7 * PAGE + 5000)
            file.write(bytes([byte[0] ^ 0x10]))
            file.seek(3 * PAGE)
            file.write(bytes(PAGE))
        (bad,) = self.verify(cluster, 1)["bad"]
        self.assertEqual((bad["file"], bad["block"]), (name, 7))
        self.assertRegex(bad["reason"], "^page checksum is [0-9a-f]{4} and should be [0-9a-f]{4}: damaged$")
        strict = self.verify(cluster, 1, "--strict")
        self.assertIn({"file": name, "first_block": 3, "pages": 1}, strict["holes"])
        self.assertIn((name, 3), [(bad["file"], bad.get("block")) for bad in strict["bad"]])

    def test_a_page_zeroed_but_for_free_space(self):
        """The server takes such a page for a new one: zeros in clear, and one sector of sealed zeros left."""
        cluster = self.cluster().init().start()
        cluster.psql("CREATE TABLE half WITH (fillfactor = 50) AS SELECT i FROM generate_series(1, 5000) i; CHECKPOINT")
        name = cluster.psql("SELECT pg_relation_filepath('half')")
        cluster.stop()
        self.assertEqual(self.verify(cluster, 0, "--strict")["holes"], [])
        with open(cluster.data / name, "r+b") as file:
            file.seek(3 * PAGE)
            page = file.read(PAGE)
            file.seek(3 * PAGE)
            file.write(bytes(1536) + page[1536:2048] + bytes(PAGE - 2048))  # free: sectors 1 to 7
        self.assertIn({"file": name, "first_block": 3, "pages": 1}, self.verify(cluster, 1, "--strict")["holes"])

    def test_a_running_server_is_refused_and_a_crashed_one_told(self):
        cluster = self.loaded()
        done = run([PGSEAL, "verify", "-D", cluster.data], check=False)
        sentence = (f"pgseal: a server is running on {cluster.data} (process {cluster.server.pid}): stop it, for its "
                    "files change while they are read\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (9, "", sentence))
        cluster.kill9()
        report = self.verify(cluster, 0)
        self.assertEqual((report["shut_down"], report["bad"]), (False, []))
        cluster.start()
        cluster.stop()
        report = self.verify(cluster, 0)
        self.assertEqual((report["shut_down"], report["bad"]), (True, []))

    def test_wal_in_every_state_is_good_and_a_zeroed_page_is_found(self):
        """Segments in use, made ahead and recycled; stopped, crashed, and after recovery."""
        cluster = self.cluster(conf="min_wal_size = 160MB\nwal_init_zero = on\n").init().start()
        cluster.psql("CREATE TABLE t (i int); " + "INSERT INTO t VALUES (1); SELECT pg_switch_wal(); " * 5 + "CHECKPOINT; CHECKPOINT")
        for end in [cluster.stop, cluster.kill9]:
            end()
            self.assertEqual(self.verify(cluster, 0, "--strict")["bad"], [])
            cluster.start()
        cluster.psql("SELECT pg_switch_wal()")
        cluster.stop()
        self.assertEqual(self.verify(cluster, 0, "--strict")["bad"], [])
        self.assertGreater(len(list((cluster.data / "pg_wal").glob("0*"))), 2)
        last = cluster.run("pg_controldata", "-D", cluster.data).stdout
        last = re.search("REDO WAL file: +(\\w+)", last)[1]
        segment = cluster.data / "pg_wal" / last
        first = segment.read_bytes()[:PAGE]
        self.overwrite(segment, bytes(PAGE))
        bad = {"file": f"pg_wal/{last}", "block": 0, "reason": "is zeroed, and pages after it are not",
               "remedy": "restore"}
        self.assertEqual(self.verify(cluster, 1)["bad"], [bad])
        self.overwrite(segment, first)
        segment.rename(self.directory / last)
        (bad,) = self.verify(cluster, 1)["bad"]
        self.assertEqual((bad["file"], bad["reason"][:45]), (f"pg_wal/{last}", "is missing and belongs to the last checkpoint"))
        (self.directory / last).rename(segment)
        self.assertEqual(self.verify(cluster, 0, "--strict")["bad"], [])
        cluster.start().stop()

    @staticmethod
    def overwrite(path, content):
        with open(path, "r+b") as file:
            file.write(content)

    def test_an_empty_pg_control_is_a_finding(self):
        cluster = self.cluster().init()
        (cluster.data / "global/pg_control").write_bytes(b"")
        (bad,) = self.verify(cluster, 1)["bad"]
        self.assertEqual(bad, {"file": "global/pg_control", "reason": "pg_control has only 0 bytes: restore it from a backup",
                               "remedy": "as_said"})

    def test_a_server_that_is_called_postmaster(self):
        cluster = self.cluster().init()
        if not (cluster.bindir / "postmaster").exists():
            self.skipTest("PostgreSQL has no postmaster since 16")
        server = subprocess.Popen([cluster.bindir / "postmaster", "-D", cluster.data], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=base_environment())
        cluster.server = server
        eventually(cluster.is_ready)
        said = json.loads(run([PGSEAL, "status", "-D", cluster.data, "--json"]).stdout)
        self.assertEqual(said["server"], {"state": "running_sealed", "pid": server.pid})
        done = run([PGSEAL, "verify", "-D", cluster.data], check=False)
        self.assertEqual((done.returncode, done.stdout), (9, ""))
        cluster.stop()

    def test_what_a_link_leads_to_is_not_read_and_said_so(self):
        cluster = self.loaded()
        cluster.stop()
        moved = self.directory / "moved"
        (cluster.data / "base/5").rename(moved)
        (cluster.data / "base/5").symlink_to(moved)
        (cluster.data / "pg_tblspc/77777").symlink_to("/nonexistent")
        cluster.start()
        done = run([PGSEAL, "audit", cluster.data, "--canary", self.canaries.mark, "--json"], check=False)
        unread = [place["file"] for place in json.loads(done.stdout)["not_read"]]
        self.assertEqual((done.returncode, unread), (1, [f"{cluster.data}/base/5", f"{cluster.data}/pg_tblspc/77777"]))

    def test_an_audit_finds_nothing_sealed_and_everything_plain(self):
        sealed = self.loaded()
        self.assertEqual(self.audit(sealed, 0), [])
        sealed.stop()
        self.assertEqual(self.audit(sealed, 0), [])
        plain = self.loaded("plain", sealed=False)
        plain.stop()
        hits = self.audit(plain, 1)
        canary = {hit["file"] for hit in hits if hit["what"] == "canary"}
        found = {file for files in self.canaries.found(plain.data).values() for file in files}
        self.assertEqual(canary, found)
        clear = {}
        for hit in hits:
            if hit["what"] == "clear_pages":
                clear[hit["file"]] = clear.get(hit["file"], 0) + hit["pages"]
        for file in self.relations(plain):
            bytes_ = file.read_bytes()
            written = sum(any(bytes_[at:at + PAGE]) for at in range(0, len(bytes_), PAGE))
            self.assertEqual(clear.get(str(file), 0), written, file)

    @staticmethod
    def relations(cluster):
        """Files of relations, without their forks, below base/."""
        return [path for path in files_below(cluster.data / "base") if path.name.isdigit()]


if __name__ == "__main__":
    main(__file__)
