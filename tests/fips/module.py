#!/usr/bin/env python3
"""The FIPS module inside the preloaded library: it tests itself before our code uses it, and ends a program whose copy of it was changed.

Needs a build by `make build PGSEAL_FIPS=yes`.
"""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, STAGE, Case, main, run  # noqa: E402

LIBRARY = STAGE / "dist/lib/libpgseal.so"
SELF_TEST, OURS = "BORINGSSL_bcm_power_on_self_test", "pgseal_start"


class Module(Case):
    def setUp(self):
        super().setUp()
        if "FIPS" not in run([PGSEAL, "--version"]).stdout:
            self.skipTest("dist/ is not a FIPS build: make test-fips")

    def symbols(self):
        """The library's own symbols, and their addresses."""
        lines = [line.split() for line in run(["nm", LIBRARY]).stdout.splitlines()]
        return {line[2]: int(line[0], 16) for line in lines if len(line) == 3}

    def initialisers(self):
        """The addresses that the loader calls, in its order."""
        at, size = re.search(r"\.init_array\s+INIT_ARRAY\s+(\w+)\s+\w+\s+(\w+)", run(["readelf", "-SW", LIBRARY]).stdout).groups()
        places = range(int(at, 16), int(at, 16) + int(size, 16), 8)
        lines = [line.split() for line in run(["readelf", "-rW", LIBRARY]).stdout.splitlines() if "_RELATIVE" in line]
        targets = {int(line[0], 16): int(line[-1], 16) for line in lines}
        return [targets[place] for place in places]

    def test_it_tests_itself_before_our_code_runs(self):
        order, places = self.initialisers(), self.symbols()
        self.assertIn(places[SELF_TEST], order)
        self.assertEqual(order[-1], places[OURS])

    def test_a_changed_module_ends_the_program(self):
        places, changed = self.symbols(), self.directory / "libpgseal.so"
        shutil.copy(LIBRARY, changed)
        self.assertEqual(run(["/bin/true"], {"LD_PRELOAD": str(changed)}).stderr, "")
        middle = (places["BORINGSSL_bcm_text_start"] + places["BORINGSSL_bcm_text_end"]) // 2
        with open(changed, "r+b") as file:
            file.seek(self.offset(middle))
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))
        done = run(["/bin/true"], {"LD_PRELOAD": str(changed)}, check=False)
        self.assertLess(done.returncode, 0, done.stderr)
        self.assertIn("FIPS integrity test failed", done.stderr)

    def offset(self, address):
        """Where in the file the loader finds what it maps at this address."""
        for line in run(["readelf", "-lW", LIBRARY]).stdout.splitlines():
            if line.split()[:1] == ["LOAD"]:
                offset, start, size = (int(line.split()[at], 16) for at in (1, 2, 4))
                if start <= address < start + size:
                    return address - start + offset
        raise AssertionError(f"nothing is mapped at {address:#x}")


if __name__ == "__main__":
    main(__file__)
