"""Programs that the library does not know by name: started by their own wrapper, they read a cluster as PostgreSQL's own do."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, Case, main, run  # noqa: E402


class Programs(Case):
    def test_a_program_under_another_name(self):
        """A package puts its programs beside PostgreSQL's, and `bindir` writes their wrappers."""
        cluster = self.cluster().init()
        expected = cluster.run("pg_controldata", "-D", cluster.data).stdout
        wrapper = self.renamed(cluster, "pg_controldata", "pg_rman")
        for command in [[wrapper, "-D", cluster.data], [wrapper]]:
            done = run(command, {"PGDATA": str(cluster.data)})
            self.assertEqual((done.stdout, done.stderr), (expected, ""))
        self.assertIn("WARNING: Calculated CRC checksum does not match", run([PG / "pg_controldata", "-D", cluster.data]).stdout)

    def test_one_that_writes(self):
        cluster = self.cluster().init()
        wrapper = self.renamed(cluster, "pg_resetwal", "pg_bulkload")
        run([wrapper, "-D", cluster.data, "--next-transaction-id=9000"])
        cluster.start()
        self.assertEqual(cluster.psql("SELECT pg_current_xact_id()::text::int >= 9000"), "t")

    def renamed(self, cluster, program, name):
        """The wrapper of a copy of the program."""
        copy, wrapper = self.directory / name, self.directory / f"wrapper_{name}"
        shutil.copy(PG / program, copy)
        shutil.copy(cluster.bindir / program, wrapper)
        wrapper.write_text(wrapper.read_text().replace(str(PG / program), str(copy)))
        return wrapper


if __name__ == "__main__":
    main(__file__)
