"""The harness of the tests that run PostgreSQL: clusters, sealed or plain, in a place of their own.

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
    from pgseal_test import Case, main

    class Crash(Case):
        def test_rows_survive(self):
            cluster = self.cluster(conf="max_prepared_transactions = 2")
            cluster.init().start()
            cluster.psql("CREATE TABLE t AS SELECT 1 AS a")
            cluster.kill9()
            cluster.start()
            self.assertEqual(cluster.psql("SELECT a FROM t"), "1")

    if __name__ == "__main__":
        main(__file__)

Started by hand or by make, such a file runs itself below stage.py: as an unprivileged user, on copies of dist/ and
tests/. PGSEAL_TEST_PG is the bindir of the PostgreSQL under test; PGSEAL_TEST_KEEP=1 keeps what a failed test left.

Invariants: servers listen on unix sockets in temporary directories only; `postgres` is our own child, never pg_ctl's, so
that its end is seen; after every test all its processes have ended.
"""

import functools
import hmac
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import stage
from waiting import TIME_LIMIT

PG = Path(os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin"))
STAGE = Path(os.environ.get("PGSEAL_TEST_STAGE", "/nonexistent"))
PGSEAL = STAGE / "dist/bin/pgseal"
CLOSE_LIMIT = 10  # twice the time that the server gives its own children
# What pgseal says in a server's log of something that is wrong: each line of it but the one of a sound start.
COMPLAINT = "pgseal: (?!sealed cluster, key id )"
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def main(test_file, tools=()):
    """Runs the test file; `tools` are programs of the tree, beside dist/, that it needs (below STAGE then)."""
    if "PGSEAL_TEST_STAGE" not in os.environ:
        sys.exit(stage.supervise(test_file, tools))
    if not (PG / "postgres").exists():
        sys.exit(f"{PG} holds no postgres; set PGSEAL_TEST_PG to the directory of PostgreSQL's programs")
    stage.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # What is ignored in a shell's background job, or under nohup, would be so in all that we start.
    for number in [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP]:
        signal.signal(number, signal.SIG_DFL)
    unittest.main(module="__main__", verbosity=2)


def run(command, environment=None, check=True, **options):
    """Runs a program to its end, in an environment of our own, and returns its CompletedProcess (text)."""
    done = subprocess.run(command, env={**base_environment(), **(environment or {})}, text=True, capture_output=True,
                          errors="replace", timeout=TIME_LIMIT, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def base_environment():
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(STAGE / "work"), "LANG": "C.UTF-8", "TZ": "UTC"}


def major_version(pg=PG):
    """15, 17, 18 …"""
    return int(re.search(r"\d+", run([pg / "pg_config", "--version"]).stdout)[0])


def twins(pg=PG):
    """The directory of the sealed twins of `pg`'s programs, made at its first use."""
    directory = STAGE / "work" / ("sealed" + str(pg).replace("/", "_"))
    if not directory.exists():
        run([PGSEAL, "bindir", "--pg", pg, "--into", directory])
    return directory


def clones(directory):
    """Can the file system there share blocks between files (XFS, Btrfs)?"""
    source = directory / "source"
    source.write_bytes(b"x" * 8192)
    return run(["cp", "--reflink=always", source, directory / "clone"], check=False).returncode == 0


class Reflink:
    """A file system that clones, for programs that run in `environment` (reflink.c); `count` is how often it did."""

    def __init__(self, directory):
        library, self.told = directory / "reflink.so", directory / "clones"
        run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAGE / "tests/lib/reflink.c", "-ldl"])
        self.environment = {"LD_PRELOAD": str(library), "PGSEAL_TEST_CLONES": str(self.told)}

    def count(self):
        return self.told.stat().st_size if self.told.exists() else 0


class Case(unittest.TestCase):
    """A test with a directory of its own, whose clusters are stopped and removed after it."""

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="t", dir=STAGE / "work"))
        self.templates = Templates()
        self.addCleanup(self._remove)

    def _remove(self):
        if os.environ.get("PGSEAL_TEST_KEEP") != "1":
            shutil.rmtree(self.directory, ignore_errors=True)

    def cluster(self, name="main", **options):
        """A Cluster of this test, not yet initialised."""
        cluster = Cluster(self.directory / name, **options)
        cluster.templates = self.templates
        self.addCleanup(cluster.close)
        return cluster

    def reserved_port(self):
        """A port of this test alone. Bound, not listened on, it is given to nobody else; a server can bind it as well, by
        the option that PostgreSQL sets."""
        keeper = socket.socket()
        self.addCleanup(keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        return keeper.getsockname()[1]


class Templates:
    """Data directories that initdb has made in this program, as PostgreSQL's own suites keep one: a test's first cluster of either
    kind is a copy, if an earlier test had one of the same options. Its other clusters are made by initdb, so that no two of a
    test have a key or a system identifier in common."""

    made = {}
    NEVER = ("PGSEAL", "PGDATAKEY")  # variables that change what initdb does

    def __init__(self):
        self.copied = set()

    def make(self, cluster, initdb):
        """Makes the data directory of `cluster`, by `initdb` or by a copy."""
        options = (cluster.bindir, cluster.sealed, *cluster.initdb)
        fits = cluster.key in [("--no-key-wrap",), None] and not any(name.startswith(self.NEVER) for name in cluster.environment)
        if not fits or cluster.sealed in self.copied or os.path.lexists(cluster.data):
            return initdb()
        self.copied.add(cluster.sealed)
        if options in self.made:
            return run(["cp", "-a", self.made[options], cluster.data])
        initdb()
        self.made[options] = template = STAGE / "work" / f"made-by-initdb-{len(self.made)}"
        return run(["cp", "-a", cluster.data, template])


class Cluster:
    """One data directory and its server. `home` holds data/, the socket and the log; `tablespaces` makes home/<name>."""

    def __init__(self, home, sealed=True, bits=256, key=("--no-key-wrap",), initdb=(), conf="", pg=PG, tablespaces=(),
                 environment=None, wrappers=None):
        self.home = home
        self.data = home / "data"
        self.log_file = home / "log"
        self.sealed = sealed
        self.pg = pg
        self.bindir = (wrappers or twins)(pg) if sealed else pg
        self.environment = {"PGHOST": str(home), "PGUSER": "postgres", "PGDATABASE": "postgres", **(environment or {})}
        self.key = key if sealed else None
        self.templates = None
        self.initdb = [f"--data-encryption={bits}", *key, *initdb] if sealed else list(initdb)
        self.conf = conf
        self.server = None
        self.sessions = []
        home.mkdir()
        for name in tablespaces:
            (home / name).mkdir()

    def init(self):
        """initdb and configuration; data checksums are on, sealed or not."""
        standard = ["-D", self.data, "-U", "postgres", "-A", "trust", "-N", "-k", "-E", "UTF8", "--locale=C"]
        initdb = functools.partial(self.run, "initdb", *standard, *self.initdb)
        self.templates.make(self, initdb) if self.templates else initdb()
        own = f"listen_addresses = ''\nunix_socket_directories = '{self.home}'\nfsync = off\nmax_wal_senders = 4\n"
        self.configure(own + self.conf)
        return self

    def configure(self, conf):
        """Adds lines to postgresql.conf."""
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(conf + "\n")

    def run(self, program, *arguments, **options):
        """Runs one of PostgreSQL's programs on this cluster: the wrapper if the cluster is sealed."""
        environment = {**self.environment, **options.pop("environment", {})}
        return run([self.bindir / program, *arguments], environment, **options)

    def start(self, *options, **place):
        """Starts the server and waits until it takes connections."""
        if (status := self.try_start(*options, **place)) is not None:
            raise AssertionError(f"the server ended with {status}\n{self.log()[-4000:]}")
        return self

    def try_start(self, *options, data=None, directory=None):
        """Starts the server: None when it takes connections, its exit status if it ended instead.

        `data` is another way to say where the data directory is, `directory` the one to start in."""
        command = [self.bindir / "postgres", "-D", data or self.data, *options]
        with open(self.log_file, "a") as log:
            self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory or self.home,
                                           env={**base_environment(), **self.environment}, start_new_session=True)
        deadline = time.monotonic() + TIME_LIMIT
        while not self.is_ready():
            if self.server.poll() is not None:
                return self._ended()
            if time.monotonic() > deadline:
                raise AssertionError(f"the server is not ready after {TIME_LIMIT} s\n{self.log()[-4000:]}")
            time.sleep(0.02)
        return None

    def is_ready(self):
        """Does postmaster.pid, written by this very server, say so?"""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.server.pid) and lines[7].strip() in ("ready", "standby")

    def psql(self, sql, db="postgres", user="postgres", error=None, options=(), receiver=None):
        """Runs SQL, statement by statement, and returns the rows, unaligned. With `error`, a pattern, it must fail so.

        `receiver` is what the session says it is: a token(), or raw."""
        arguments = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", db, "-U", user, *options]
        said = {} if receiver is None else {"PGOPTIONS": f"-c pgseal.receiver={receiver}"}
        done = run([self.pg / "psql", *arguments], {**self.environment, **said}, check=error is None, input=sql)
        if error is not None and (done.returncode == 0 or not re.search(error, done.stderr)):
            raise AssertionError(f"expected an error like {error!r}, got {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.rstrip("\n") if error is None else done.stderr

    def session(self, db="postgres", user="postgres"):
        """An open psql: write SQL to its stdin. It ends with the cluster at the latest."""
        command = [self.pg / "psql", "-X", "-q", "-A", "-t", "-d", db, "-U", user]
        session = subprocess.Popen(command, env={**base_environment(), **self.environment}, text=True, bufsize=1,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.sessions.append(session)
        return session

    def end_sessions(self):
        """Ends every session that is still open."""
        while self.sessions:
            with self.sessions.pop() as session:
                session.kill()

    def stop(self, mode="fast"):
        """Stops the server and returns its exit status, which must be 0 (mode immediate aside)."""
        self.server.send_signal(STOP_SIGNALS[mode])
        self.server.wait(TIME_LIMIT)
        status = self._ended()
        if status != 0 and mode != "immediate":
            raise AssertionError(f"the server ended with {status}\n{self.log()[-4000:]}")
        return status

    def kill9(self):
        """kill -9 of the postmaster; returns when all its children have ended too."""
        self.server.send_signal(signal.SIGSTOP)  # so that no child is born while they are listed
        while (fields := stage.process_fields(Path(f"/proc/{self.server.pid}"))) and fields[0] not in "TZ":
            time.sleep(0.001)
        children = stage.descendants(self.server.pid)
        self.server.kill()
        self.server.wait(TIME_LIMIT)
        stage.end_processes(children, patience=20)
        self._ended()

    def close(self):
        """Whatever state it is in: no process of it is left. An immediate stop takes the shared memory along as well."""
        self.end_sessions()
        if self.server is None:
            return
        children = stage.descendants(self.server.pid)
        self.server.send_signal(STOP_SIGNALS["immediate"])
        try:
            self.server.wait(CLOSE_LIMIT)
        except subprocess.TimeoutExpired:  # stopped by the test, perhaps
            self.kill9()
            return
        stage.end_processes(children, patience=20)
        self._ended()

    def _ended(self):
        status, self.server = self.server.returncode, None
        return status

    def log(self):
        """The server's log so far."""
        return self.log_file.read_text(errors="replace")

    def master_key(self):
        """The key of a cluster made with --no-key-wrap, whose key file holds it in clear."""
        payload = re.search(rb"pgsealk1([0-9a-f]{64})", (self.data / "pg_encryption/key.bin").read_bytes())
        return bytes.fromhex(payload[1].decode())

    def system_id(self):
        """pg_control begins with it, in clear."""
        return struct.unpack("<Q", (self.data / "global/pg_control").read_bytes()[:8])[0]

    def token(self, role="postgres", expiry=None, master=None, system_id=None):
        """A receiver token of this cluster, good for an hour: docs/format/receiver.md, without pgseal."""
        expiry = int(time.time()) + 3600 if expiry is None else expiry
        master, system_id = master or self.master_key(), system_id or self.system_id()
        key = hmac.digest(master, b"pgseal/1" + bytes([7, 0, 0, 0, 0, 0, 1]), "sha256")
        grant = b"clear-pages\0" + struct.pack(">QQ", system_id, expiry) + role.encode()
        return f"v1.{expiry}.{role}.{hmac.digest(key, grant, 'sha256')[:16].hex()}"


class Canaries:
    """Random words, one per label, that begin with one random mark: whatever shows the mark leaked."""

    def __init__(self):
        self.mark = "q" + secrets.token_hex(6)

    def __getitem__(self, label):
        """The word for a label of small letters and digits; also fit for an SQL name."""
        return f"{self.mark}_{label}_"

    def found(self, *places):
        """{label: {file, …}} of what is in clear in these files and below these directories."""
        pattern = re.compile(self.mark.encode() + rb"(?:_([a-z0-9]+)_)?")
        hits = {}
        for file in files_below(*places):
            for match in pattern.finditer(read_raw(file)):
                hits.setdefault((match[1] or b"?").decode(), set()).add(str(file))
        return hits

    def audit(self, *directories):
        """What `pgseal audit` finds, or does not read, in these directories, told to look for the mark: a line for each."""
        done = run([PGSEAL, "audit", *directories, "--canary", self.mark], check=False)
        *found, total = done.stdout.splitlines()
        if not re.match(r"\d+ hits in ", total) or done.returncode != int(found != []):
            raise AssertionError(f"pgseal audit ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
        return found


def files_below(*places):
    """All regular files, links to directories followed (tablespaces, pg_wal)."""
    for place in places:
        if Path(place).is_file():
            yield Path(place)
        for directory, _, names in os.walk(place, followlinks=True):
            yield from (path for name in names if (path := Path(directory, name)).is_file())


def read_raw(file):
    """The stored bytes; none if the file, or the process in /proc, has just gone.

    A process that is ending has no memory any more, and its files in /proc are root's then."""
    try:
        return Path(file).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except PermissionError:
        if not str(file).startswith("/proc/"):
            raise
        return b""
