#!/usr/bin/env python3
"""Keys and rows in memory: what a SQL role that may read files, a process of the same user, or a core dump can get.

Without care a role with pg_read_server_files finds the master key through /proc/self/mem.
"""

import ctypes
import hmac
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import no_system_call
from pgseal_test import PGSEAL, Canaries, Case, base_environment, main, read_raw
from waiting import eventually

def has_secret_memory():
    fd = ctypes.CDLL(None).syscall(no_system_call.SYS_MEMFD_SECRET, os.O_CLOEXEC)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


secret_memory = unittest.skipUnless(
    has_secret_memory(), "this kernel has memfd_secret switched off: it is on since Linux 6.5, before that by secretmem.enable=1")

# Processes that stay; autovacuum's workers come and go.
PROCESSES = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'"

READERS = """
CREATE ROLE spy LOGIN;
GRANT pg_read_server_files TO spy;
GRANT EXECUTE ON FUNCTION pg_read_binary_file(text), pg_read_binary_file(text, bigint, bigint) TO spy;
GRANT EXECUTE ON FUNCTION pg_read_file(text), pg_ls_dir(text) TO spy;
"""


def processes(cluster):
    """When those of psql that have ended are gone, whose backends may outlive them."""
    clients = f"SELECT count(*) FROM ({PROCESSES} AND backend_type = 'client backend') others"
    eventually(lambda: cluster.psql(clients) == str(len(cluster.sessions)), "a client that has ended still has its backend")
    return [cluster.server.pid, *map(int, cluster.psql(PROCESSES).split())]


class SqlRole(Case):
    def setUp(self):
        super().setUp()
        self.sealed = self.spied("sealed", sealed=True)

    def spied(self, name, **options):
        cluster = self.cluster(name, **options).init().start()
        cluster.psql(READERS)
        return cluster

    def paths_to_memory(self, cluster):
        """Ways to a process's memory: this backend's, another backend's, the postmaster's; direct and through links."""
        other = cluster.session()
        other.stdin.write("SELECT pg_backend_pid();\n")
        pid = int(other.stdout.readline())
        (cluster.home / "to_memory").symlink_to("/proc/self/mem")
        (cluster.home / "to_process").symlink_to("/proc/self")
        return ["/proc/self/mem", "/proc/thread-self/mem", f"/proc/{pid}/mem", f"/proc/{pid}/task/{pid}/mem",
                f"/proc/{cluster.server.pid}/mem", "/proc//self/./../self/mem", f"{cluster.home}/to_memory",
                f"{cluster.home}/to_process/mem"]

    def test_memory_cannot_be_opened(self):
        for path in self.paths_to_memory(self.sealed):
            for sql in [f"SELECT pg_read_binary_file('{path}', 0, 1)", f"COPY pg_temp.t FROM '{path}'"]:
                with self.subTest(path=path, sql=sql):
                    self.sealed.psql(f"CREATE TEMP TABLE t (a text); {sql}", user="spy", error="Permission denied")
        self.sealed.psql("SELECT lo_import('/proc/self/mem')", error="Permission denied")

    def test_the_same_role_reads_a_plain_servers_memory(self):
        plain = self.spied("plain", sealed=False)
        for path in self.paths_to_memory(plain):
            with self.subTest(path=path):
                self.assertEqual(plain.psql(self.first_bytes(path), user="spy"), r"\x7f454c46")

    def first_bytes(self, path):
        """Four bytes where the executable is mapped; the same in every process of a server."""
        start = "('x' || lpad(split_part(pg_read_file('/proc/self/maps'), '-', 1), 16, '0'))::bit(64)::bigint"
        return f"SELECT pg_read_binary_file('{path}', {start}, 4)"

    def paths_to_secrets(self, cluster):
        """Where other processes of the server's user keep keys, passphrases and rows: the test itself, as a tool would, and
        what parallel workers share, of which the postmaster has a part mapped."""
        record = os.memfd_create("pgseal")
        readable, writable = os.pipe()
        for descriptor in [record, readable, writable]:
            self.addCleanup(os.close, descriptor)
        os.write(record, b"key")
        os.write(writable, b"passphrase")
        link = cluster.home / "to_record"
        link.symlink_to(f"/proc/{os.getpid()}/fd/{record}")
        shared = re.search(r"/dev/shm/PostgreSQL\.\d+", Path(f"/proc/{cluster.server.pid}/maps").read_text())[0]
        process = f"/proc/{os.getpid()}"
        by_parents = f"{cluster.data}{'/..' * len(cluster.data.parts)}{process}/environ"
        return [f"{process}/fd/{record}", str(link), f"{process}/environ", f"{process}/task/{os.getpid()}/environ",
                f"{process}/maps", f"{process}/smaps", f"{process}/auxv", by_parents,
                shared, f"/dev/../{shared}", f"{process}/fd/{readable}"]

    def test_what_other_processes_keep_cannot_be_read(self):
        for path in self.paths_to_secrets(self.sealed):
            with self.subTest(path=path):
                self.sealed.psql(f"SELECT pg_read_binary_file('{path}', 0, 1)", user="spy", error="Permission denied")
                self.sealed.psql(f"SELECT lo_import('{path}')", error="Permission denied")

    def test_the_same_role_reads_it_through_a_plain_server(self):
        plain = self.spied("plain", sealed=False)
        for path in self.paths_to_secrets(plain)[:-1]:  # the last is a pipe, which has no place to read from
            with self.subTest(path=path):
                self.assertRegex(plain.psql(f"SELECT pg_read_binary_file('{path}', 0, 1)", user="spy"), r"^\\x..$")

    def test_what_anybody_may_read_of_other_processes(self):
        """Extensions that watch the machine read it."""
        for name in ["stat", "status", "cmdline"]:
            self.assertNotEqual(self.sealed.psql(f"SELECT pg_read_binary_file('/proc/{os.getpid()}/{name}')", user="spy"), r"\x")

    def test_other_process_files_can_be_read(self):
        self.assertIn("postgres", self.sealed.psql("SELECT pg_read_file('/proc/self/maps')", user="spy"))

    def test_the_key_file_is_out_of_reach(self):
        data = self.sealed.data
        (self.sealed.home / "to_data").symlink_to(data)
        paths = ["pg_encryption/key.bin", "./base/..//pg_encryption/./key.bin", f"{data}/pg_encryption/key.bin",
                 "/proc/self/cwd/pg_encryption/key.bin", f"/proc/{self.sealed.server.pid}/cwd/pg_encryption/key.bin",
                 f"/proc/self/root{data}/pg_encryption/key.bin", f"{self.sealed.home}/to_data/pg_encryption/key.bin"]
        for path in paths:
            with self.subTest(path=path):
                self.sealed.psql(f"SELECT pg_read_binary_file('{path}')", user="spy", error="Permission denied")
                self.sealed.psql(f"COPY (SELECT 1) TO '{path}'", error="Permission denied|relative path not allowed")
        self.assertNotIn("pg_encryption", self.sealed.psql("SELECT pg_ls_dir('.')", user="spy").split())


class Environment(Case):
    def test_no_passphrase_in_environment_or_arguments(self):
        """The commands hold a passphrase; the server, and any program that it starts, has no use for them."""
        word = Canaries()["pass"]
        commands = {"PGDATAKEYWRAPCMD": f'openssl enc -e -aes-256-cbc -pbkdf2 -pass pass:{word} -out "%p"',
                    "PGDATAKEYUNWRAPCMD": f'openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:{word} -in "%p"'}
        cluster = self.cluster(key=(), environment=commands, conf="archive_mode = on\n"
                               f"archive_command = 'cat /proc/$$/environ >> {self.directory}/seen'\n").init().start()
        shown = cluster.psql("SELECT pg_switch_wal(); SELECT encode(pg_read_binary_file('/proc/self/environ'), 'escape')")
        self.assertIn("PGUSER", shown)
        for pid in processes(cluster):
            shown += str([read_raw(f"/proc/{pid}/{name}") for name in ["environ", "cmdline"]])
        cluster.stop()
        shown += (self.directory / "seen").read_text()
        self.assertNotIn(word, shown)

    def test_a_tool_that_starts_no_other_keeps_nothing(self):
        """pg_receivewal runs for ever beside the server, as the same user."""
        word = Canaries()["pass"]
        commands = {"PGDATAKEYWRAPCMD": f'openssl enc -e -aes-256-cbc -pbkdf2 -pass pass:{word} -out "%p"',
                    "PGDATAKEYUNWRAPCMD": f'openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:{word} -in "%p"'}
        cluster = self.cluster(key=(), environment=commands).init().start()
        archive = self.directory / "archive"
        archive.mkdir()
        with subprocess.Popen([cluster.bindir / "pg_receivewal", "-D", archive, "--no-loop"],
                              env={**base_environment(), **cluster.environment}) as tool:
            self.addCleanup(tool.kill)
            eventually(lambda: cluster.psql("SELECT state FROM pg_stat_replication") == "streaming")
            links = [os.readlink(link) for link in Path(f"/proc/{tool.pid}/fd").iterdir()]
            environment = read_raw(f"/proc/{tool.pid}/environ")
            tool.terminate()
        self.assertEqual([link for link in links if "memfd" in link], [])
        self.assertIn(b"PGUSER", environment)
        self.assertNotIn(word.encode(), environment)


class SameUser(Case):
    @secret_memory
    def test_memory_of_all_processes_holds_no_master_key(self):
        cluster = self.cluster(conf="shared_buffers = 4MB\n").init().start()
        word = Canaries()["row"]
        cluster.psql(f"CREATE TABLE t AS SELECT repeat('{word}', 9)")
        session = cluster.session()
        session.stdin.write("SELECT count(*) FROM t, pg_class;\n")
        session.stdout.readline()
        key = cluster.master_key()
        forms = {"row": word.encode(), **self.forms_of(key)}
        pids = processes(cluster)
        found = {(form, pid) for pid in pids for form in self.forms_in(pid, forms)}
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in pids]
        self.assertEqual({form for form, _ in found}, {"row"})
        self.assertTrue(all("secretmem" in areas for areas in maps))

    def test_a_kernel_without_secret_memory(self):
        """Then the master key is in pages that core dumps leave out, and which are locked in each process."""
        cluster = self.cluster(conf="shared_buffers = 4MB\n").init()
        switched_off = self.directory / "bin"
        switched_off.mkdir()
        program = switched_off / "postgres"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {no_system_call.__file__} {no_system_call.SYS_MEMFD_SECRET} '
                           f'{cluster.bindir}/postgres "$@"\n')
        program.chmod(0o755)
        cluster.bindir = switched_off
        cluster.start()
        cluster.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i; CHECKPOINT")
        forms = self.forms_of(cluster.master_key())
        cluster.session().stdin.write("SELECT count(*) FROM t;\n")
        for pid in processes(cluster):
            self.assertEqual(set(self.forms_in(pid, forms, self.dumped_areas(pid))), set())
            self.assertIn("0", set(self.forms_in(pid, forms, self.ranges(pid))))  # where else would it be
            self.assertEqual([resident for flags, resident in self.undumped_areas(pid) if "lo" not in flags and resident], [])

    def forms_of(self, key):
        """Parts of the key, as they are and as HMAC and SHA-256 work with them."""
        forms = {f"{offset}": key[offset : offset + 8] for offset in range(0, 32, 8)}
        for pad in (0x36, 0x5C):
            padded = bytes(byte ^ pad for byte in key)
            swapped = b"".join(padded[at : at + 4][::-1] for at in range(0, 32, 4))
            forms |= {f"{pad:x}": padded[:16], f"{pad:x}, words swapped": swapped[:16]}
        return {**forms, "hexadecimal": key.hex().encode()[:32]}

    def test_what_is_dumped_holds_no_key_of_a_file(self):
        for bits in [128, 256]:
            cluster = self.cluster(str(bits), bits=bits, conf="shared_buffers = 4MB\n").init().start()
            cluster.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i; CHECKPOINT")
            session = cluster.session()
            session.stdin.write("INSERT INTO t SELECT 1 FROM pg_class; SELECT 1;\n")
            session.stdout.readline()
            keys = self.file_keys(cluster, bits)
            self.assertEqual({re.sub(r"[0-9]+", "0", name) for name in keys} - {"base/0/0_vm", "global/0_vm"}, {
                "WAL", "base/0/0", "base/0/0_fsm", "global/0", "global/0_fsm", "global/pg_control", "pg_xact/0",
                "pg_subtrans/0", "pg_multixact/members/0", "pg_multixact/offsets/0"})
            found = {(name, pid) for pid in processes(cluster) for name in self.file_keys_in(pid, keys)}
            self.assertEqual(found, set())

    @staticmethod
    def file_keys(cluster, bits):
        """{name: K1 and K2}: docs/format/keys.md, without pgseal."""
        master = cluster.master_key()

        def expand(number, name):
            info = struct.pack(">8sBBHBB", b"pgseal/1", 1, 1, bits, number, len(name)) + name
            first = hmac.digest(master, info + b"\1", "sha256")
            return (first + hmac.digest(master, first + info + b"\2", "sha256"))[:bits // 4]

        keys = {"WAL": expand(3, bytes(8))}
        for path in cluster.data.rglob("*"):
            name = str(path.relative_to(cluster.data))
            relation = re.fullmatch(r"(?:base/(\d+)|global)/(\d+)(?:_(fsm|vm|init))?", name)
            if relation:
                database, number, fork = relation.groups()
                fork = [None, "fsm", "vm", "init"].index(fork)
                keys[name] = expand(1, struct.pack(">IIBI", int(database or 0), int(number), fork, 0))
            elif re.match(r"pg_(?:xact|multixact/\w+|subtrans)/", name):
                keys[name] = expand(4, name.encode())
            elif name == "global/pg_control":
                keys[name] = expand(5, name.encode())
        return keys

    def file_keys_in(self, pid, keys):
        """The names of the keys of which 16 bytes lie in what a core dump takes along."""
        pieces = {key[at : at + 16]: name for name, key in keys.items() for at in range(0, len(key) - 15, 16)}
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for start, end in self.dumped_areas(pid):
                content = self.content(memory, start, end)
                for at in range(0, len(content), 4) if content.strip(b"\0") else []:
                    if content[at : at + 16] in pieces:
                        yield pieces[content[at : at + 16]]

    def forms_in(self, pid, forms, ranges=None):
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for start, end in ranges or self.ranges(pid):
                content = self.content(memory, start, end)
                yield from (form for form, needle in forms.items() if needle in content)

    def ranges(self, pid):
        """Readable memory, libraries and programs aside."""
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end, access, *rest = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
            if access.startswith("rw") or "secretmem" in rest[0] or not rest[0]:
                yield int(start, 16), int(end, 16)

    def content(self, memory, start, end):
        """What can be read; untouched huge reservations are read in parts that exist."""
        parts = []
        while start < end:
            length = min(end - start, 64 << 20)
            try:
                parts.append(os.pread(memory.fileno(), length, start))
            except OSError:
                break
            start += length
        return b"".join(parts)

    @secret_memory
    def test_secret_memory_cannot_be_read_from_outside(self):
        cluster = self.cluster().init().start()
        areas = [(start, end) for start, end, name in self.named_areas(cluster.server.pid) if "secretmem" in name]
        self.assertNotEqual(areas, [])
        with open(f"/proc/{cluster.server.pid}/mem", "rb", 0) as memory:
            for start, end in areas:
                with self.assertRaises(OSError):
                    os.pread(memory.fileno(), end - start, start)

    def named_areas(self, pid):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, _, _, _, _, *name = line.split()
            yield int(span.split("-")[0], 16), int(span.split("-")[1], 16), " ".join(name)

    def test_no_process_keeps_the_handed_over_keys_open(self):
        cluster = self.cluster().init().start()
        for pid in processes(cluster):
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
            self.assertEqual([link for link in links if "memfd" in link or "secretmem" in link], [])

    def test_expanded_keys_are_locked(self):
        """What is in use of their memory is locked in every process; a child has to lock what it inherits."""
        cluster = self.cluster().init().start()
        for pid in processes(cluster):
            areas = list(self.undumped_areas(pid))
            self.assertTrue(any("lo" in flags and resident for flags, resident in areas), areas)
            self.assertEqual([resident for flags, resident in areas if "lo" not in flags and resident], [])

    def test_no_memory_may_be_locked(self):
        """Then keys are not locked, and the server does its work."""
        cluster = self.cluster().init()
        limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_MEMLOCK, limits)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, limits[1]))
        cluster.start()
        cluster.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
        cluster.kill9()
        cluster.start()
        self.assertEqual(cluster.psql("SELECT sum(i) FROM t"), "500500")
        for pid in processes(cluster):
            areas = list(self.undumped_areas(pid))
            self.assertTrue(any(resident for _, resident in areas), areas)
            self.assertEqual([flags for flags, _ in areas if "lo" in flags], [])

    def dumped_areas(self, pid):
        """(start, end) of private memory that is written, except what core dumps leave out."""
        for head, flags, _ in self.areas(pid):
            if head[1] == "rw-p" and "dd" not in flags:
                start, end = head[0].split("-")
                yield int(start, 16), int(end, 16)

    def undumped_areas(self, pid):
        """(flags, resident kilobytes) of the process's private memory that core dumps leave out, except what the kernel may drop:
        there glibc 2.41 keeps the state of getrandom."""
        for head, flags, resident in self.areas(pid):
            if len(head) == 5 and "dd" in flags and "dp" not in flags:
                yield flags, resident

    def areas(self, pid):
        """(first line, flags, resident kilobytes) of each area."""
        for area in re.split(r"^(?=[0-9a-f]+-)", Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)[1:]:
            flags = re.search(r"^VmFlags: (.*)$", area, re.M)[1].split()
            yield area.splitlines()[0].split(), flags, int(re.search(r"^Rss: +(\d+) kB", area, re.M)[1])

    def test_shared_buffers_stay_out_of_core_dumps(self):
        cluster = self.cluster().init().start()
        for pid in processes(cluster):
            self.assertEqual(int(Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0x31)


class Command(Case):
    """The command itself, while it holds the key: it waits for a wrap command, whose own limits are the operator's."""

    def setUp(self):
        super().setUp()
        self.data = self.cluster().init().data
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, limits)

    def waiting(self):
        """`pgseal key wrap` that has made the payload, and what its command saw of itself."""
        seen = self.directory / "seen"
        wrap = (f"ulimit -c >{seen}.part; stat -c %u /proc/self/status >>{seen}.part; mv {seen}.part {seen}; "
                "while kill -0 $PPID; do sleep 0.1; done")
        command = [PGSEAL, "key", "wrap", "-D", self.data, "--new-wrap-command", wrap, "--new-unwrap-command", 'cat "%p"']
        process = subprocess.Popen(command, cwd=self.directory, env=base_environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(seen.exists, process=process)
        return process, seen.read_text().split()

    @staticmethod
    def end(process):
        """Ends it as a crash would; whether a core was dumped."""
        process.send_signal(signal.SIGQUIT)
        code = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT).si_code
        process.wait()
        return code == os.CLD_DUMPED

    def test_the_command_dumps_no_core(self):
        process, (limit, owner) = self.waiting()
        files = Path(f"/proc/{process.pid}")
        # What belongs to root there cannot be read by processes of the same user.
        self.assertEqual((files / "status").stat().st_uid, 0)
        with self.assertRaises(PermissionError):
            (files / "environ").read_bytes()
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        self.assertEqual((limit, int(owner)), ("unlimited" if hard == resource.RLIM_INFINITY else str(hard // 512), os.getuid()))
        self.assertFalse(self.end(process))
        self.assertEqual(list(self.directory.glob("**/core*")), [])

    def test_another_program_does(self):
        """So the test above would see one, where this system keeps cores at all."""
        sleep = subprocess.Popen(["sleep", "60"], cwd=self.directory)
        self.assertEqual(Path(f"/proc/{sleep.pid}/status").stat().st_uid, os.getuid())
        if not self.end(sleep):
            self.skipTest("this system keeps no cores")


if __name__ == "__main__":
    main(__file__)
