"""What the tests share in which `pgseal seal`, `unseal` and `rekey` are killed, or meet an error, at a call that strace counts."""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from converting import PLAIN_KEY, ConvertCase, become, content
from pgseal_test import PGSEAL, run, twins

CALLS = ["fsync", "rename", "unlink"]
# What is kept of keys that were in use.
KEPT = r"(?:key\.bin|pgseal\.toml)\.[0-9a-f]{32}$"
# The commands that bring a cluster back to what it was in clear.
BACK = {"seal": ["unseal"], "unseal": [], "rekey": ["unseal"]}


class InterruptCase(ConvertCase):
    """A cluster with a tablespace, before a conversion, half-way, and at its end."""

    key = PLAIN_KEY
    # The databases that are dropped first, and the one that has the table.
    without, database = (), "postgres"

    def setUp(self):
        super().setUp()
        self.main = self.cluster(sealed=False, tablespaces=["space"], initdb=["--wal-segsize=1"])
        self.main.init().start()
        for name in self.without:
            self.main.psql(f"ALTER DATABASE {name} IS_TEMPLATE false; DROP DATABASE {name}", self.database)
        self.main.psql(f"CREATE TABLESPACE space LOCATION '{self.main.home}/space'; CREATE TABLE t TABLESPACE space "
                       "AS SELECT i, i || 'clear' AS word FROM generate_series(1, 1000) i", self.database)
        self.main.stop()
        self.places = [self.main.data, self.main.home / "space"]
        self.clear = self.content()

    def content(self):
        """Of all files but pgseal's own."""
        own = re.compile(r"data/(pg_encryption[./]|SEALED\.README$|postmaster\.pid$|" + KEPT + ")")
        return {name: file for name, file in content(*self.places).items() if not own.match(name)}

    def prepare(self, command):
        """Brings the cluster to where `command` begins, and keeps a copy."""
        if command != "seal":
            self.convert("seal", self.main, *PLAIN_KEY)
        self.saved = self.directory / "saved"
        run(["cp", "-a", self.main.home, self.saved])

    def restore(self, command):
        for place in self.places:
            shutil.rmtree(place)
            run(["cp", "-a", self.saved / place.name, place])
        become(self.main, sealed=command != "seal")

    def traced(self, command, *strace):
        """The conversion with one thread, under strace."""
        key = [] if command == "unseal" else self.key
        trace = ["strace", "-qq", *strace]
        return run([*trace, PGSEAL, command, "-D", self.main.data, "--jobs=1", *key], check=False)

    def calls(self, command):
        """The names of the calls that it makes, in order; the cluster is converted afterwards."""
        log = self.directory / "calls"
        done = self.traced(command, "-o", log, "-e", "trace=" + ",".join(CALLS))
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.findall(r"^(\w+)\(", log.read_text(), re.MULTILINE)

    def inject(self, command, call, number, what="signal=KILL"):
        """The conversion, with `what` happening in place of the call of this number."""
        inject = f"inject={call}:{what}:when={number}"
        return self.traced(command, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)

    def look(self, command):
        """What is there, and that nothing starts on it but where it may."""
        journal = (self.main.data / "pg_encryption/conversion").exists()
        gate = (self.main.data / "global/pg_control").exists()
        state = (journal, gate)
        if journal:
            again = f"pgseal: {self.main.data} is only partly converted: run `pgseal {command}` on it again, which goes on "
            for program in [[PGSEAL, "verify"], [PGSEAL, "status"], [twins() / "postgres"]]:
                done = run([*program, "-D", self.main.data], check=False)
                self.assertEqual((done.returncode, done.stderr), (9, again + "where it was interrupted\n"))
        if not gate:
            done = run([self.main.pg / "postgres", "-D", self.main.data], check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, 'could not open file ".*/global/pg_control": No such file or directory')
        return state

    def end(self, command):
        """The same command again, unless it had ended, and back to the bytes of the beginning."""
        data = self.main.data
        sealed, plain = (data / "pg_encryption").exists(), not list(data.glob("pg_encryption*"))
        ended = {"seal": sealed, "unseal": plain, "rekey": self.is_rekeyed()}[command]
        if (data / "pg_encryption/conversion").exists() or not ended:
            self.convert(command, self.main, *([] if command == "unseal" else PLAIN_KEY))
        else:
            (data / "postmaster.pid").unlink(missing_ok=True)  # of a process that is gone; a server does the same
        for back in BACK[command]:
            self.convert(back, self.main)
        self.assertEqual(self.names_of_ours(), [])
        self.assert_same_files(self.clear, self.content())

    def is_rekeyed(self):
        old = self.saved / "data/pg_encryption/key.bin"
        new = self.main.data / "pg_encryption/key.bin"
        return old.exists() and new.exists() and old.read_bytes() != new.read_bytes()

    def names_of_ours(self):
        found = [path for place in self.places for path in place.rglob("*")]
        ours = [path.name for path in found if re.search(r"pgseal|pg_encryption|SEALED|postmaster.pid", path.name)]
        return [name for name in ours if not re.match(KEPT, name)]
