#!/usr/bin/env python3
"""What a backend could write counts, used or not, where the kernel promises no more memory than there is
(vm.overcommit_memory=2, which PostgreSQL's manual recommends): a sealed one has little more of it than a plain one.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import Case, main  # noqa: E402

# The library's data with its buffers for pages is 1.1 MB; what holds the keys of open files grows by 64 kB at a time.
MORE = 2048


class Memory(Case):
    def test_a_sealed_backend_is_charged_little_more(self):
        plain, sealed = (self.charged(name) for name in ["plain", "sealed"])
        for kind, kilobytes in plain.items():
            self.assertGreater(kilobytes, 0)
            self.assertLessEqual(sealed[kind], kilobytes + MORE, kind)

    def charged(self, name):
        """What a backend with open tables could write, in kilobytes: as the kernel counts it, and by its areas."""
        cluster = self.cluster(name, sealed=name == "sealed").init().start()
        cluster.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
        session = cluster.session()
        session.stdin.write("SELECT count(*) > 0 FROM t, pg_class; SELECT pg_backend_pid();\n")
        self.assertEqual(session.stdout.readline(), "t\n")
        process = Path(f"/proc/{int(session.stdout.readline())}")
        status, areas = ((process / file).read_text() for file in ["status", "smaps"])
        private = re.findall(r"^[0-9a-f]+-[0-9a-f]+ .w.p .*\nSize: +(\d+) kB", areas, re.M)
        return {"VmData": int(re.search(r"^VmData:\s+(\d+) kB", status, re.M)[1]), "areas": sum(map(int, private))}


if __name__ == "__main__":
    main(__file__)
