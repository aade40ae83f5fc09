#!/usr/bin/python3
"""Recovery over the moment at which a plain cluster was sealed in place: its archive is in clear up to there, which `pgseal seal`
prints, and encrypted behind it. WAL in clear is taken up to that bound, if the operator gives it, and nowhere else.
"""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from archived import CP_RESTORE, Archived  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import PGSEAL, base_environment, main, run, twins  # noqa: E402
from waiting import eventually


class SealedInPlace(Archived):
    def setUp(self):
        """A base from before, sealed under a key of its own, and the archive of a cluster that was sealed in place later."""
        super().setUp()
        plain = self.primary("a", sealed=False)
        plain.psql("CREATE TABLE t (i int)")
        plain.stop()
        base = self.cold_copy(plain, "base")
        run([PGSEAL, "seal", "-D", base.data, "--no-key-wrap"])
        self.write(plain.start(), 1, "before")
        plain.stop()
        self.bound = json.loads(run([PGSEAL, "seal", "-D", plain.data, "--no-key-wrap", "--json"]).stdout)["clear_wal"]
        self.assertRegex(self.bound, r"^1:0/[0-9A-F]+$")
        self.in_clear = {file.name for file in self.archive.glob("0*")}
        self.sealed, plain.bindir = plain, twins()
        self.write(plain.start(), 2, "after")
        plain.stop()
        self.key, self.base = plain.data / "pg_encryption/key.bin", base.data

    def write(self, cluster, value, point):
        cluster.psql(f"INSERT INTO t VALUES ({value}); SELECT pg_create_restore_point('{point}')")
        self.archive_all(cluster)

    def restored(self, name, bound, restore):
        """The base, told to recover."""
        copy = self.cluster(name, environment={} if bound is None else {"PGSEAL_CLEAR_WAL": bound})
        run(["cp", "-a", self.base, copy.data])
        self.follow(copy, f"recovery_target_name = '{name.split('_')[0]}'", restore)
        return copy

    def end(self, copy):
        """The rows, when recovery is through."""
        copy.start()
        eventually(lambda: copy.psql("SELECT pg_is_in_recovery()") == "f")
        rows = copy.psql("SELECT string_agg(i::text, ' ' ORDER BY i) FROM t")
        copy.stop()
        return rows

    def page_setting(self):
        """What docs/operations/archive-and-pitr.md sets last."""
        page = Page("docs/operations/archive-and-pitr.md", {"/archive/primary.key": str(self.key), "/archive": str(self.archive),
                                                            "1:0/3000028": self.bound, "pgseal wal": f"{PGSEAL} wal"})
        return page.blocks("conf")[-1].split("'")[1]

    def wal_get(self, more=""):
        return f"{PGSEAL} wal-get --from {{archive}} --key-file-name {self.key} {more} %f %p"

    def test_to_points_before_and_after(self):
        option = f"--accept-clear={self.bound}"
        self.assertEqual(self.end(self.restored("before", None, self.wal_get(option))), "1")
        self.assertEqual(self.end(self.restored("after", None, self.page_setting())), "1 2")
        # wal-get knows what the server was told.
        self.assertEqual(self.end(self.restored("after_told", self.bound, self.wal_get())), "1 2")

    def test_what_cp_brings(self):
        """The server itself looks at it. What is behind the bound is under a key that cp does not know."""
        clear = self.directory / "clear"
        clear.mkdir()
        for name in self.in_clear:
            shutil.copy(self.archive / name, clear)
        self.assertEqual(self.end(self.restored("before_cp", self.bound, f"cp {clear}/%f %p")), "1")

    def test_unmarked(self):
        """An empty setting is none, and one that is misspelled says so, to the server and to wal-get."""
        refused = "pgseal: WAL segment [0-9A-F]{24} came in clear, and is refused, because "
        unreadable = "cannot be understood: it must be `accept` or TIMELINE:LSN"
        for name, bound, restore, said in [
            ("before_get", None, self.wal_get(), refused), ("before_cp", None, CP_RESTORE, refused),
            ("before_get_empty", "", self.wal_get(), refused), ("before_cp_empty", "", CP_RESTORE, refused),
            ("before_get_wrong", "acept", self.wal_get(), "invalid value 'acept' [^\n]*: it must be `accept` or TIMELINE:LSN"),
            ("before_cp_wrong", "acept", CP_RESTORE, f"{refused}PGSEAL_CLEAR_WAL is `acept` and {unreadable}"),
        ]:
            copy = self.restored(name, bound, restore)
            self.assertEqual(copy.try_start(), 1)
            self.assertRegex(copy.log(), said)

    def test_behind_the_bound(self):
        """Who writes the archive goes on in clear where the cluster does not."""
        [first] = [min(file.name for file in self.archive.glob("0*") if file.name not in self.in_clear)]
        name = self.sealed.data / "pg_wal" / first
        shutil.copy(self.archive / first, name)
        run([PGSEAL, "exec", "-D", self.sealed.data, "--", "/usr/bin/dd", f"if={name}", f"of={self.archive / first}", "bs=1M"],
            {**base_environment(), "PGSEAL_PROGRAMS": "dd"})
        for name, restore in [("after_get", self.wal_get()), ("after_cp", CP_RESTORE)]:
            copy = self.restored(name, self.bound, restore)
            copy.try_start()  # it may be consistent before it comes to that segment
            eventually(lambda: copy.server is None or copy.server.poll() is not None)
            self.assertIn(f"pgseal: WAL segment {first} came in clear, and is refused, because", copy.log())


if __name__ == "__main__":
    main(__file__, ["docs/operations/archive-and-pitr.md"])
