#!/usr/bin/python3
"""The official image's entry point, as it is, over packaging/container/Dockerfile: an empty volume, a second start, and a plain volume.

scripts/fetch-kubernetes.sh brings docker-entrypoint.sh. It runs as the image's user without root, on a read-only root, as
`docker run --user postgres --read-only` runs it, so `gosu` is not needed.
"""

import os
import re
import secrets
import subprocess
import sys
import unittest

from pods import PATH, ROOT, UID, Node, Pod, unable

sys.path.insert(0, str(ROOT / "tests/lib"))
from chroot import CACHE  # noqa: E402
from pgseal_test import Canaries  # noqa: E402
from waiting import eventually  # noqa: E402

ENTRY_POINT = CACHE / "kubernetes/docker-entrypoint.sh"
STAGE = (ROOT / "packaging/container/Dockerfile").read_text().split("\nFROM ")[-1]
STEPS = re.findall(r"^(COPY|RUN|ENV) (.*)$", STAGE, re.M)
DATA = "/var/lib/postgresql/data"
PASSWORD, PASSPHRASE = secrets.token_hex(8), secrets.token_hex(32)


class OfficialImage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := unable():
            raise unittest.SkipTest(why)
        if not ENTRY_POINT.exists():
            raise unittest.SkipTest("there is no entry point: run scripts/fetch-kubernetes.sh")
        cls.canaries = Canaries()
        cls.node = Node(cls)
        cls.image = cls.node.image("official")
        cls.environment = {"PATH": f"{PATH}:/usr/lib/postgresql/15/bin", "LANG": "C.UTF-8", "PG_MAJOR": "15", "PGDATA": DATA}
        cls.image.step(f"usermod -u {UID} postgres; mkdir -p {DATA}")
        cls.image.copy(ENTRY_POINT, "/usr/local/bin/docker-entrypoint.sh")
        cls.image.step("chmod 755 /usr/local/bin/docker-entrypoint.sh; mkdir /docker-entrypoint-initdb.d /controller")
        script = cls.image.root / "docker-entrypoint-initdb.d/table.sql"
        script.write_text(f"CREATE TABLE t AS SELECT '{cls.canaries['script']}' AS word; CHECKPOINT;\n")
        for step, text in STEPS:
            if step == "COPY":
                source, target = text.removeprefix("--from=build /src/").split()
                cls.image.copy(ROOT / source, target)
            elif step == "RUN":
                cls.image.step(text)
            else:
                name, _, value = text.partition("=")
                cls.environment[name] = value.strip('"').replace("$PATH", cls.environment["PATH"])

    def container(self, volume, **more):
        """A container on a volume, and a directory of the secret that the image's variables name."""
        scratch = self.node.volume(f"scratch-{len(list(self.node.place.glob('scratch-*')))}")
        run = self.node.volume(f"{scratch.name}-run")
        (run / "secrets").mkdir()
        (run / "secrets/pgseal").write_text(PASSPHRASE + "\n")
        subprocess.run(["chown", "-R", f"{UID}:{UID}", run], check=True)
        mounts = [(volume, DATA, "--bind"), (scratch, "/controller", "--bind"), (run, "/run", "--bind")]
        environment = {**self.environment, "POSTGRES_PASSWORD": PASSWORD, "POSTGRES_DB": "app", **more}
        return Pod(self.node, self.image, mounts, environment, scratch)

    def served(self, container):
        """Starts the entry point, and waits until the server that it became takes connections over TCP."""
        started = container.start("docker-entrypoint.sh", "postgres", background=True)

        def is_ready():
            return container.run("pg_isready", "-q", "-h", "127.0.0.1", check=False).returncode == 0

        eventually(lambda: is_ready() or container.read(started, "rc"), lambda: self.said(container, started))
        self.assertEqual(container.read(started, "rc"), "", self.said(container, started))
        return started

    @staticmethod
    def said(container, started):
        """Both outputs so far."""
        return container.read(started, "out") + container.read(started, "err")

    def rows(self, container, sql):
        """By TCP and the password, as the image's clients come."""
        psql = ["psql", "-XAtq", "-h", "127.0.0.1", "-U", "postgres", "-d", "app"]
        return container.run("env", f"PGPASSWORD={PASSWORD}", *psql, "-c", sql).stdout.strip()

    def stop(self, container, started):
        """As Docker stops the image: SIGINT to the first process, which the server is."""
        pid = container.run("head", "-n", "1", f"{DATA}/postmaster.pid").stdout.strip()
        container.run("kill", "-INT", pid)
        eventually(lambda: container.read(started, "rc"), lambda: self.said(container, started))
        self.assertEqual(container.read(started, "rc"), "0\n", self.said(container, started))
        container.end()

    def test_an_empty_volume_and_a_second_start(self):
        volume = self.node.volume("empty")
        container = self.container(volume)
        started = self.served(container)
        self.assertIn("PostgreSQL init process complete", container.read(started, "out"))
        self.assertEqual(self.rows(container, "SHOW pgseal.sealed"), "on")
        self.assertEqual(self.rows(container, "SELECT count(*) FROM t"), "1")
        self.stop(container, started)
        self.assertEqual(self.canaries.found(volume), {})
        container = self.container(volume)
        started = self.served(container)
        self.assertIn("Skipping initialization", container.read(started, "out"))
        self.assertEqual(self.rows(container, "SELECT count(*) FROM t"), "1")
        self.stop(container, started)

    def test_a_plain_volume_stays_plain_or_is_refused(self):
        volume = self.node.volume("plain")
        container = self.container(volume, PGSEAL_INITDB_OPTIONS="")
        started = self.served(container)
        self.assertEqual(self.rows(container, "SHOW pgseal.sealed"), "off")
        self.stop(container, started)
        self.assertIn("script", self.canaries.found(volume))
        container = self.container(volume, PGSEAL_EXPECT_KEY=secrets.token_hex(16))
        done = container.run("docker-entrypoint.sh", "postgres", check=False)
        self.assertEqual(done.returncode, 7)
        self.assertIn("is not sealed, but PGSEAL_EXPECT_KEY demands a sealed cluster", done.stderr)
        container.end()

    def test_without_its_secret_nothing_is_made(self):
        volume = self.node.volume("secretless")
        container = self.container(volume, PGSEAL_INITDB_OPTIONS="--data-encryption --key-passphrase-file=/run/secrets/none")
        done = container.run("docker-entrypoint.sh", "postgres", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the passphrase file /run/secrets/none cannot be read", done.stderr)
        self.assertEqual(os.listdir(volume), [])
        container.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
