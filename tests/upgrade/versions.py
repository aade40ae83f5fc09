#!/usr/bin/env python3
"""pg_upgrade across major versions: 13 to 15, 15 to 17, 17 to 18, 18 to 19, with tablespaces, every way of transfer.

Reads PostgreSQL as tests/suites/fetch-build.sh installs it, 13 too: PGSEAL_TEST_PG names the programs of any one version,
the others lie beside it. Old and new cluster have their relations of a tablespace in one directory; when they have
different keys, or only one is sealed, the version in a path says whose a file is.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PG, main
from upgrading import LABELS, UpgradeCase

PLAIN, SEALED, SAME_KEY = "plain", "sealed", "same key"
APART = LABELS | {"elsewhere"}


def programs(version):
    """The programs of another version than the one under test."""
    bindir = PG.parents[2] / str(version) / "inst/bin"
    if not (bindir / "postgres").exists():
        sys.exit(f"{bindir} holds no postgres; run tests/suites/fetch-build.sh {version}, and set PGSEAL_TEST_PG to .../15/inst/bin")
    return bindir


class Versions(UpgradeCase):
    def pair(self, before, kind_before, after, kind_after):
        """The old cluster with its content, and the new one."""
        old, content = self.old_cluster(programs(before), apart=True, sealed=kind_before is not PLAIN)
        return old, content, self.new_cluster(after, kind_after, old)

    def new_cluster(self, version, kind, old):
        key = ("--copy-key-from", old.data / "pg_encryption/key.bin") if kind is SAME_KEY else ("--no-key-wrap",)
        return self.cluster("new", pg=programs(version), sealed=kind is not PLAIN, key=key).init()

    def directories(self, cluster):
        """What is in the data directory, and what the cluster has in the tablespace, where the other one's is too."""
        version = (cluster.data / "PG_VERSION").read_text().strip()
        own = [place for place in cluster.data.iterdir() if place.name != "pg_tblspc"]
        return [*own, *(self.directory / "old/apart").glob(f"PG_{version}_*")]

    def check_upgrade(self, before, kind_before, after, kind_after, *options):
        """Upgrades, and looks into both clusters."""
        old, content, new = self.pair(before, kind_before, after, kind_after)
        self.upgraded(old, new, *options)
        self.check_upgraded(new, content)
        for cluster in [old, new]:
            self.check_clear(content, cluster)

    def check_clear(self, content, cluster):
        found = content.canaries.found(*self.directories(cluster))
        if cluster.sealed:
            self.assertEqual(found, {})
        else:
            self.assertLessEqual(APART, set(found))

    def check_refusal(self, before, kind_before, after, kind_after, *options):
        old, _, new = self.pair(before, kind_before, after, kind_after)
        self.check_refused(old, new, *options)

    # 13 cannot be sealed: this is the way from it.

    def test_13_plain_to_15_sealed(self):
        self.check_upgrade(13, PLAIN, 15, SEALED)

    def test_15_plain_to_17_sealed(self):
        self.check_upgrade(15, PLAIN, 17, SEALED, "--jobs=2")

    def test_15_plain_to_17_sealed_copy_file_range(self):
        self.check_upgrade(15, PLAIN, 17, SEALED, "--copy-file-range")

    def test_15_plain_to_17_sealed_link(self):
        self.check_refusal(15, PLAIN, 17, SEALED, "--link")

    def test_15_sealed_to_17_same_key(self):
        self.check_upgrade(15, SEALED, 17, SAME_KEY)

    def test_15_sealed_to_17_same_key_link(self):
        self.check_upgrade(15, SEALED, 17, SAME_KEY, "--link", "--jobs=2")

    def test_15_sealed_to_17_same_key_copy_file_range(self):
        self.check_upgrade(15, SEALED, 17, SAME_KEY, "--copy-file-range")

    def test_15_sealed_to_17_other_key(self):
        self.check_upgrade(15, SEALED, 17, SEALED)

    def test_15_sealed_to_17_other_key_link(self):
        self.check_refusal(15, SEALED, 17, SEALED, "--link")

    def test_15_sealed_to_17_plain(self):
        self.check_upgrade(15, SEALED, 17, PLAIN)

    def test_17_sealed_to_18_same_key(self):
        self.check_upgrade(17, SEALED, 18, SAME_KEY)

    def test_17_sealed_to_18_same_key_link(self):
        self.check_upgrade(17, SEALED, 18, SAME_KEY, "--link")

    def test_17_sealed_to_18_same_key_swap(self):
        self.check_upgrade(17, SEALED, 18, SAME_KEY, "--swap")

    def test_17_sealed_to_18_same_key_swap_by_two(self):
        self.check_upgrade(17, SEALED, 18, SAME_KEY, "--swap", "--jobs=2")

    def test_17_sealed_to_18_other_key(self):
        self.check_upgrade(17, SEALED, 18, SEALED, "--copy-file-range")

    def test_17_sealed_to_18_other_key_swap(self):
        self.check_refusal(17, SEALED, 18, SEALED, "--swap")

    def test_17_plain_to_18_sealed_swap(self):
        self.check_refusal(17, PLAIN, 18, SEALED, "--swap")

    def test_17_plain_to_18_sealed_keeps_dumps(self):
        """18 dumps planner statistics: values of rows."""
        old, content, new = self.pair(17, PLAIN, 18, SEALED)
        self.upgraded(old, new, "--retain")
        dumps = sorted((new.data / "pg_upgrade_output.d").glob("*/dump/*"))
        self.assertIn(content.canaries["statistic"].encode(), b"".join(self.clear_bytes(new, dump) for dump in dumps))
        self.check_nothing_in_clear(content, *self.directories(new), but=["name"])
        self.check_upgraded(new, content)

    def test_17_sealed_to_18_plain(self):
        self.check_upgrade(17, SEALED, 18, PLAIN)

    # 19 writes pg_multixact itself, and takes the metadata of large objects and tablespaces inside the data directory over.

    def test_15_plain_to_19_sealed(self):
        self.check_upgrade(15, PLAIN, 19, SEALED, "--jobs=2")

    def test_18_sealed_to_19_same_key(self):
        self.check_upgrade(18, SEALED, 19, SAME_KEY)

    def test_18_sealed_to_19_same_key_link(self):
        self.check_upgrade(18, SEALED, 19, SAME_KEY, "--link")

    def test_18_sealed_to_19_same_key_swap(self):
        self.check_upgrade(18, SEALED, 19, SAME_KEY, "--swap", "--jobs=2")

    def test_18_sealed_to_19_other_key(self):
        self.check_upgrade(18, SEALED, 19, SEALED, "--copy-file-range")

    def test_18_sealed_to_19_other_key_swap(self):
        self.check_refusal(18, SEALED, 19, SEALED, "--swap")

    def test_18_sealed_to_19_plain(self):
        self.check_upgrade(18, SEALED, 19, PLAIN)

    def test_15_plain_without_checksums_to_17_sealed(self):
        """A sealed cluster without checksums needs wal_log_hints, during the upgrade as well."""
        old, content, new = self.pair(15, PLAIN, 17, SEALED)
        for cluster in [old, new]:
            cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        self.assertNotEqual(self.pg_upgrade(old, new, check=False).returncode, 0)
        log, = (new.data / "pg_upgrade_output.d").glob("*/log/pg_upgrade_server.log")
        self.assertIn("a sealed cluster needs data checksums or wal_log_hints", log.read_text())
        new.configure("wal_log_hints = on")
        self.upgraded(old, new)
        new.start()
        self.check_rows(new, content)
        new.stop()


if __name__ == "__main__":
    main(__file__)
