#!/usr/bin/env python3
"""What the memory of a backend holds while it computes with encrypted columns: in the isolated form no key and no value.

The image is everything that the process can read, shared memory included: what a debugger of the server's user or a superuser's
C function would meet who was there before the backend used encdb; nobody else may look, and no core file is left. The inline form,
which keeps both in the backend, shows that the search finds them.
"""

import os
import re
import resource
import secrets
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from waiting import eventually

NUMBER = secrets.randbits(60) | 1 << 60
OWNER = 183
# No statement's text has them: the one is put together by the server, the other is written in decimal digits.
VALUES = {"text": b"XYLOPHONIST", "number": NUMBER.to_bytes(8, "little"), "number as sent": NUMBER.to_bytes(8, "big")}
# Of the owner that owner.rs makes of this number.
KEYS = {"master key": bytes([OWNER] * 32), "signing key": bytes([255 - OWNER] * 32)}
TABLE = f"""SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t (n enc_int8, c enc_text);
INSERT INTO t SELECT encdb.enc_int8_encrypt(n), encdb.enc_text_encrypt(c)
  FROM (SELECT {NUMBER} + g * 0 AS n, upper('xylo') || upper('phonist') AS c FROM generate_series(1, 500) g) v;
"""
WORK = """SELECT count(*) FROM t a JOIN t b ON a.c = b.c AND a.n = b.n;
SELECT count(*), sum(n) IS NOT NULL, min(c) IS NOT NULL FROM t;
SELECT count(*) FROM (SELECT c || c AS cc, n + n AS nn FROM t ORDER BY c, n) v WHERE cc > (SELECT max(c) FROM t);
"""
# A setting is in ordinary memory as long as its session: what a core file is sure to hold. The evaluator works where none reaches.
KEPT = "SELECT set_config('memory.kept', encdb.decrypt(c), false) IS NOT NULL FROM t LIMIT 1;\n"
PID = "SELECT 'pid', pg_backend_pid();\n"


def image(maps, memory):
    """The readable memory of a process, piece by piece."""
    for line in maps:
        start, end, access, inode = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)", line).groups()
        constant = inode != "0" and "w" not in access  # a library's own
        if access[0] != "r" or constant or "[vvar" in line or "[vsyscall]" in line:
            continue
        memory.seek(int(start, 16))
        try:
            yield memory.read(int(end, 16) - int(start, 16))
        except OSError:
            continue  # not to be read by anybody: secret memory, devices


def owned(pieces):
    """What of the owner's is in these bytes."""
    needles = {**VALUES, **KEYS}
    return {name for piece in pieces for name, needle in needles.items() if piece.find(needle) >= 0}


class Memory(Confidential):
    def found(self, form, work, socket=""):
        """What of the owner's is in the memory of a backend after this work. It leaves no core file.

        Only who had the memory open before the backend used encdb reads it, or root."""
        server = self.server(form=form, socket=socket)
        server.psql(self.opening(OWNER) + TABLE)
        session = server.session()
        pid = self.done(session, "")
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            self.done(session, self.opening(OWNER) + work)
            pieces = list(image(maps, memory))
        for name in ["maps", "mem"]:
            self.assertRaises(PermissionError, open, f"/proc/{pid}/{name}")
        self.assertGreater(sum(map(len, pieces)), 1 << 27)  # the shared buffers at least
        self.assertTrue(any(b"generate_series(1, 500)" in piece or b"test_memory" in piece or b"enc_int8" in piece for piece in pieces))
        self.crash(server, pid)
        return owned(pieces)

    def done(self, session, work):
        """Does this work in a session, and gives its process."""
        session.stdin.write(work + PID)
        for line in session.stdout:
            if line.startswith("pid|"):
                return int(line.split("|")[1])
        raise AssertionError("the session ended")

    def crash(self, server, pid):
        """Ends the backend as a crash would, where every other process would leave a core file."""
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        if "/" in pattern or pattern.startswith("|"):
            self.skipTest(f"this kernel does not leave core files where processes crash, but at {pattern}")
        resource.prlimit(pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.kill(pid, signal.SIGABRT)
        eventually(lambda: f"(PID {pid}) was terminated by signal 6" in server.log(), server.log)
        self.assertEqual(list(server.data.glob("core*")), [])

    def test_isolated(self):
        self.assertEqual(self.found("isolated", WORK, self.evaluator().socket), set())

    def test_inline_the_search_finds_them(self):
        self.assertLessEqual({"text", "number"}, self.found("inline", WORK + KEPT))


if __name__ == "__main__":
    main(__file__, TOOLS)
