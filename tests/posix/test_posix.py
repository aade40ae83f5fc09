"""Each interposed libc call gives the same results and errno natively and preloaded.

The C programs beside this file print a transcript of every call; they run in a plain directory and in a
sealed one, in each variant of names that a compiler may choose. What may differ is listed here, exactly.
"""

import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import sealed_run
from sealed_run import VARIANTS, compile_program, differences, lines, make_root, run

MASTER = bytes(range(32))
OTHER_MASTER = bytes(range(32, 64))
CLEAR = ["postgresql.conf", "pg_wal/RECOVERYXLOG"]
PAGES = ["base/5/16384", "base/5/16384_fsm.1", "base/5/t3_16385", "pg_xact/0000", "global/1262"]
KEYSTREAM = "pg_logical/mappings/map-1"
STREAMS = [
    "base/pgsql_tmp/pgsql_tmp1.0", "pg_wal/000000010000000000000001", "pg_wal/xlogtemp.1",
    "pg_twophase/00000001", "pg_stat/pgstat.stat", "pg_stat_tmp/texts", KEYSTREAM,
    "pg_logical/snapshots/0-1.snap", "pg_replslot/slot/x.spill", "base/5/strange", "global/pg_control",
]
# One path for each layout.
FEW = [*CLEAR, "base/5/16384", "pg_stat/x.stat", "pg_stat_tmp/texts", KEYSTREAM]
UNCHANGED = "40965 bytes 831cc497aedd79f6"

# What a protected file withdraws: {label: answer}. Everything else is as native.
WITHDRAWN = {
    "vectors/preadv2 with flags": "-1 EOPNOTSUPP",
    "vectors/pwritev2 with flags": "-1 EOPNOTSUPP",
    **{f"sizes/fallocate mode {mode}": "-1 EOPNOTSUPP" for mode in ("3", "10", "8", "20")},
    **{f"sizes/after fallocate mode {mode}": UNCHANGED for mode in ("3", "10", "8", "20")},
    "withdrawn/mmap": "ENODEV",
    "withdrawn/mmap shared": "ENODEV",
    "copies/F_SETLK": "-1 EINVAL",
    "withdrawn/lockf": "-1 EINVAL",
    "withdrawn/F_SETLKW": "-1 EINVAL",
    "withdrawn/sendfile from": "-1 EINVAL",
    "withdrawn/sendfile to": "-1 EINVAL",
    "withdrawn/splice from": "-1 EINVAL",
    "withdrawn/splice to": "-1 EINVAL",
    "withdrawn/FICLONE": "-1 EOPNOTSUPP",
    "withdrawn/FICLONE from": "-1 EOPNOTSUPP",
}
# O_DIRECT asks for aligned buffers; ours are, whatever the caller's (a keystream needs none of ours).
MORE_THAN_NATIVE = {"direct/unaligned buffer": "4096"}
# Where whole pages are read and rewritten, offset and length need no alignment either.
PAGES_MORE_THAN_NATIVE = {
    "direct/unaligned offset": "4096",
    "direct/unaligned length": "100",
    "direct/unaligned write": "100",
}
FREOPEN = {
    "descriptors/freopen to a clear file": "EOPNOTSUPP",
    "descriptors/fputs clear": None,
    "descriptors/fclose clear": None,
    "descriptors/clear bytes": "nothing",
    "descriptors/freopen to the file": None,
}
NAMES = {
    # Only the first page of a recycled segment means something under its new name.
    "segment/recycled": "1048576 bytes {noise} mode 640",
    "install a recycled segment/from": "1048576 bytes {left} mode 640",
    "install a recycled segment/to": "1048576 bytes {linked} mode 640",
    "install a recycled segment/left": "1048576 bytes {linked} mode 640",
    # What a name means otherwise is stored anew: the link is another file.
    **{f"install {what}/one file": "0" for what in ("data", "a history file", "a segment with two names")},
    "errors/exchange": "-1 EINVAL",
    "errors/after the exchange": "3 bytes 1a0fad1921d08076 mode 640",
    "errors/replaced": "3 bytes 1a0fad1921d08076 mode 640",
    # One set of stored bytes cannot have two identities.
    "links/to another class": "-1 EXDEV",
    "links/to another relation": "-1 EXDEV",
    "links/linkat from nothing": "-1 EXDEV",
    "another/link between": "-1 EXDEV",
    "another/link across": "-1 EXDEV",
    "another/link across keys": "-1 EXDEV",
    # The key directory is closed; natively it is not there.
    **{f"key directory/{call}": "EACCES" for call in ("open", "create", "fopen")},
    **{f"key directory/{call}": "-1 EACCES" for call in (
        "unlink", "remove", "rmdir", "unlinkat", "rename", "rename into", "truncate")},
}
MMAP_LINE = "pgseal: a protected file cannot be mapped into memory: it is read and written only"
LOCK_LINE = "pgseal: a protected file cannot be locked by its user: transfers lock it"
PAST = " would go past the encryption: set io_method to worker or sync"
# What rings refuse, by the scene and its kind of file: {label: answer}.
RING = {
    **{call: "-38" for call in (
        "submit and wait", "submit and get events", "wait for a time", "submit, and wait for a time", "wait for one, for a time",
        "submit, and wait for two times", "submit, and wait in a region")},
    **{f"{kind}/{step}": "-95" for kind in ("registered file", "splice", "link", "fallocate") for step in ("submit", "again/submit")},
    "another file/submit": "-95",
}
RING_OF_PROTECTED = {
    "one more/submit": "-16", "own ring/write 0": "-95", "own ring/write 1": "-95",
    **{f"{kind}/{step}": "-95" for kind in ("write", "writev", "options", "own position") for step in ("submit", "again/submit")},
}
# The rest of a page that a file ends in is not counted: PostgreSQL counts whole pages.
RING_OF_PAGES = {"cut page": "7016384", "cut page alone": "7000000"}
RING_LINES = [
    *[f"this call of io_uring{PAST}"] * 7,
    *[f"a request of io_uring with the flags {flags}{PAST}" for flags in ("0x1", "0x4")],
    *[f"io_uring's operation {number}{PAST}" for number in (17, 30, 30)],
]
RING_LINES_OF_PROTECTED = [
    *[f"a protected file that io_uring writes{PAST}"] * 4, *[f"a protected file that io_uring reads with options{PAST}"] * 2,
    "more requests of io_uring are under way than its ring has entries",
]
FREOPEN_LINE = ("pgseal: a protected file's stream cannot be opened in place of another: "
                "use fopen")


def withdrawn(paths):
    """What the calls on these files answer, where that is not as native."""
    answers = {f"{path}/withdrawn/O_TMPFILE": "EOPNOTSUPP" for path in paths}
    for path in paths:
        if path in CLEAR:
            continue
        more = {} if path == KEYSTREAM else MORE_THAN_NATIVE
        more = more | (PAGES_MORE_THAN_NATIVE if path in PAGES else {})
        answers |= {f"{path}/{label}": value for label, value in (WITHDRAWN | more).items()}
    return answers | {"io_uring/init": "-38", "io_uring/init_mem": "-38"}


class Posix(unittest.TestCase):
    """Native and sealed transcripts, compared line by line."""
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()

    def both(self, program, arguments, bits=256):
        """Runs in both directories; the transcripts, and the sealed one's stderr lines."""
        plain = make_root(self.scratch / "plain/one/data")
        sealed = make_root(self.scratch / "sealed/one/data", MASTER)
        native, _ = run(program, arguments, plain)
        preloaded, stderr = run(program, arguments, sealed, {sealed: MASTER}, bits)
        return native, preloaded, stderr.splitlines()

    def check(self, native, preloaded, allowed):
        """Every difference is allowed, and every allowed line has the allowed value."""
        found = differences(native, preloaded)
        self.assertEqual({label: pair for label, pair in found.items() if label not in allowed}, {})
        sealed = lines(preloaded)
        wrong = {label: sealed.get(label) for label, value in allowed.items()
                 if sealed.get(label) != value}
        self.assertEqual(wrong, {}, "not as the list of differences says")

    def assert_stored_sealed(self, *clear):
        """No marker byte string in the sealed directory, except the named files."""
        root = self.scratch / "sealed"
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        holding = {str(path.relative_to(root / "one/data")) for path in files
                   if b"-text-marker/" in path.read_bytes()}
        self.assertEqual(holding, set(clear))
        return files

    def test_calls(self):
        """Reads, writes, sizes and descriptors, for every class of file and variant of names."""
        for variant in VARIANTS:
            with self.subTest(variant):
                paths = CLEAR + PAGES + STREAMS if variant == "plain" else FEW
                program = compile_program("calls", variant, self.scratch)
                native, preloaded, stderr = self.both(program, paths)
                self.check(native, preloaded, withdrawn(paths))
                refused = [LOCK_LINE] + [MMAP_LINE] * 2 + [LOCK_LINE] * 2
                self.assertEqual(stderr, refused * len([path for path in paths if path not in CLEAR]))
                self.assert_stored_sealed(*CLEAR)

    def test_calls_of_other_key_lengths(self):
        """128 and 192 bits take another way through the cipher."""
        program = compile_program("calls", "plain", self.scratch)
        for bits in (128, 192):
            native, preloaded, _ = self.both(program, ["base/5/16384", "pg_stat/x.stat"], bits)
            bytes_of = [line for line in differences(native, preloaded) if "/sequence/" in line]
            self.assertEqual(bytes_of, [])
            self.assert_stored_sealed()

    def test_streams(self):
        """stdio in all its modes."""
        sealed_paths = ["base/5/16384", "pg_stat/x.stat", "pg_stat_tmp/texts",
                        KEYSTREAM]
        allowed = {f"{path}/{label}": value
                   for path in sealed_paths for label, value in FREOPEN.items()}
        for variant in VARIANTS:
            with self.subTest(variant):
                program = compile_program("streams", variant, self.scratch)
                native, preloaded, stderr = self.both(program, ["postgresql.conf", *sealed_paths])
                self.check(native, preloaded, allowed)
                self.assertEqual(stderr, [FREOPEN_LINE] * len(sealed_paths))
                self.assert_stored_sealed()
                self.assertEqual((self.scratch / "sealed/one/data/postgresql.conf").read_bytes(),
                                 b"left to exit")

    def test_rings(self):
        """io_uring as a server uses it, whose rings lie in shared memory, and as another program may."""
        for name in ("postgres", "ring"):
            with self.subTest(name):
                self.rings(name)

    def rings(self, name):
        """One program, in directories of its own: by its name the library takes it for a server."""
        (self.scratch / name).mkdir()
        program = self.scratch / name / name
        compile_program("ring", "plain", self.scratch).rename(program)
        paths = ["postgresql.conf", "base/5/16384", "pg_stat/x.stat", KEYSTREAM, "pg_wal/000000010000000000000001"]
        plain, sealed = make_root(program.parent / "plain/data"), make_root(program.parent / "sealed/data", MASTER)
        native, _ = run(program, paths, plain)
        preloaded, stderr = run(program, paths, sealed, {sealed: MASTER})
        allowed = {"options/a thread of the kernel": "-22"}
        for path in paths:
            allowed |= {f"{path}/{label}": value for label, value in RING.items()}
            if path != "postgresql.conf":
                allowed |= {f"{path}/{label}": value for label, value in RING_OF_PROTECTED.items()}
        found = differences(native, preloaded)
        if name == "postgres":
            # All others are read by the hook: other processes may write them meanwhile.
            cut = {f"base/5/16384/{label}": value for label, value in RING_OF_PAGES.items()}
            self.assertEqual({label: found.pop(label)[1].split()[0] for label in cut}, cut)
        self.assertEqual({label: pair for label, pair in found.items() if label not in allowed}, {})
        self.assertEqual({label: lines(preloaded).get(label) for label in allowed}, allowed)
        expected = RING_LINES * len(paths) + RING_LINES_OF_PROTECTED * (len(paths) - 1)
        said = [line.removeprefix("pgseal: ") for line in stderr.splitlines() if "key.bin is missing" not in line]
        self.assertEqual(sorted(said), sorted([f"io_uring with the options 0x2{PAST}", *expected]))

    def test_limits(self):
        """High descriptors, copies that a limit cuts short, waits that a signal ends."""
        program = compile_program("limits", "plain", self.scratch)
        native, preloaded, stderr = self.both(program, FEW)
        self.check(native, preloaded, {})
        self.assertEqual(stderr, [])
        self.assert_stored_sealed(*CLEAR)

    def test_names(self):
        """Renames across identities, links, spellings of paths, two clusters with two keys."""
        for variant in VARIANTS:
            with self.subTest(variant):
                self.names(variant)

    def names(self, variant):
        """One variant, in directories of its own."""
        program = compile_program("names", variant, self.scratch)
        transcripts = []
        for kind, keys in (("plain", (None, None)), ("sealed", (MASTER, OTHER_MASTER))):
            roots = {self.scratch / variant / kind / name / "data": key
                     for name, key in zip(("one", "two"), keys)}
            one, two = (make_root(root, key) for root, key in roots.items())
            stdout, stderr = run(program, [two], one, roots if all(keys) else None)
            self.assertEqual(stderr, "")
            transcripts.append(stdout)
        noise = {kind: lines(transcripts[1])[label].split()[2] for kind, label in (
            ("noise", "segment/recycled"), ("left", "install a recycled segment/from"), ("linked", "install a recycled segment/to"))}
        allowed = {label: value.format(**noise) for label, value in NAMES.items()}
        self.check(*transcripts, allowed)
        for path in (self.scratch / variant / "sealed").rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertNotIn(b"-text-marker/", path.read_bytes(), path)

    def test_nothing_sealed(self):
        """In a plain directory, and in a program that is not PostgreSQL's, the library does nothing."""
        for acts in (True, False):
            for source, arguments in (("calls", FEW), ("streams", FEW), ("limits", FEW)):
                with self.subTest(f"{source}, acts: {acts}"):
                    program = compile_program(source, "plain", self.scratch)
                    one = make_root(self.scratch / f"{source} {acts}/native")
                    other = make_root(self.scratch / f"{source} {acts}/loaded")
                    native, _ = run(program, arguments, one)
                    loaded, stderr = run(program, arguments, other, {}, acts=acts)
                    uring = {"io_uring/init": "-38", "io_uring/init_mem": "-38"}
                    self.check(native, loaded, uring if source == "calls" else {})
                    self.assertEqual(stderr, "")

    def test_together(self):
        """Threads, processes and signal handlers: no wrong byte."""
        seconds = os.environ.get("PGSEAL_TEST_SECONDS", "0.5")
        program = compile_program("together", "plain", self.scratch)
        native, preloaded, stderr = self.both(program, [seconds])
        self.assertEqual(differences(native, preloaded), {})
        self.assertEqual(stderr, [])
        self.assertEqual([line for line in native.splitlines() if line.endswith(" wrong")
                          and not line.endswith(" 0 wrong")], [])

    def test_pages_are_counted_that_the_cipher_sees(self):
        """Zeros that make room in a table are encrypted, those of a new WAL segment are not; data is in both."""
        root = make_root(self.scratch / "counted", MASTER)
        for source, path, expected in (("/dev/zero", "base/5/16384", 4), ("/dev/zero", "pg_wal/xlogtemp.1", 0),
                                       ("/dev/urandom", "pg_xact/0000", 4), ("/dev/urandom", "pg_wal/xlogtemp.2", 4)):
            with self.subTest(source, path=path):
                counters = self.scratch / path.replace("/", "-")
                run("/bin/dd", [f"if={source}", f"of={path}", "bs=8192", "count=4"], root, {root: MASTER},
                    variables={"PGSEAL_COUNTERS": str(counters)})
                slots = struct.iter_unpack("<8Q", counters.read_bytes())
                self.assertEqual(sum(slot[1] for slot in slots), expected)
                zeros = (root / path).read_bytes() == bytes(4 * 8192)
                self.assertEqual(zeros, expected == 0)

    def test_it_asks_for_no_newer_libc_than_it_says(self):
        # Packages are linked for 2.28, which the library's sentence names. What Debian 12 links may ask for more, not for its own 2.36.
        newest = (2, 34)
        for path in [sealed_run.library(), sealed_run.HERE.parent.parent / "dist/bin/pgseal"]:
            listing = subprocess.run(["nm", "-D", "--undefined-only", path], check=True, capture_output=True, text=True).stdout
            asked = {(int(major), int(minor)) for major, minor in re.findall(r"@GLIBC_(\d+)\.(\d+)", listing)}
            self.assertEqual({version for version in asked if version > newest}, set(), path)

    def test_every_symbol_is_called(self):
        """The programs, over all variants, import every name of libc's that the library interposes. tests/receivers and
        tests/replication call libpq's, tests/telling the library's own."""
        called = set()
        for source in ("calls", "streams", "names", "together", "ring"):
            for variant in VARIANTS:
                program = compile_program(source, variant, self.scratch)
                called |= symbols("--undefined-only", program)
        ours = {name for name in symbols("--defined-only", sealed_run.library()) if not name.startswith(("PQ", "pgseal_"))}
        self.assertEqual(ours - called, set())


def symbols(which, path):
    """Names in a program's dynamic symbol table."""
    command = ["nm", "-D", "--no-demangle", which, path]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


if __name__ == "__main__":
    unittest.main()
