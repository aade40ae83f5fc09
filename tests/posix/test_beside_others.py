"""Programs that inherit the library, and are none of PostgreSQL's, run as without it: with an allocator that maps memory while it
starts, and with a libpq of their own."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import sealed_run

HERE = pathlib.Path(__file__).resolve().parent
LIBPQ = "libpq.so.5"
# As in a wheel: under another name, of the same length.
OWN_LIBPQ = "libpx.so.5"
CALL = "import ctypes, os, sys; {}; ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL | os.RTLD_NOW).attempt()"
PROGRAMS = [["/bin/true"], ["/bin/sh", "-c", "echo one; ls /"], [sys.executable, "-c", "print(list(range(9999))[-1])"]]


def shared(source, into, *more):
    """Compiles one C file of this directory into a shared object."""
    library = into / f"lib{source}.so"
    flags = ["-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["cc", *flags, "-o", library, HERE / f"{source}.c", *more], check=True)
    return library


def run(command, *preload, **more):
    """Its status, and what it prints."""
    environment = {**os.environ, "LD_PRELOAD": ":".join(map(str, preload)), **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout, done.stderr


class BesideOthers(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="pgseal-test.")
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)
        self.library = sealed_run.library()

    def test_an_allocator_that_maps_memory_while_it_starts(self):
        allocator = shared("allocator", self.directory)
        postgres = pathlib.Path(os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin")) / "postgres"
        for program in [*PROGRAMS, [postgres, "--version"], [postgres, "--describe-config"]]:
            alone = run(program)
            self.assertEqual(alone[0], 0)
            for preload in [[allocator], [allocator, self.library], [self.library, allocator], [self.library]]:
                with self.subTest(program=program, preload=preload):
                    self.assertEqual(run(program, *preload), alone)

    def test_a_module_with_a_libpq_of_its_own(self):
        listed = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True, env={"PATH": "/usr/sbin:/sbin"}).stdout
        stock = re.search(rf"{re.escape(LIBPQ)} .*=> (\S+)", listed)[1]
        own = self.directory / OWN_LIBPQ
        own.write_bytes(pathlib.Path(stock).read_bytes().replace(LIBPQ.encode() + b"\0", OWN_LIBPQ.encode() + b"\0"))
        headers = subprocess.run(["pg_config", "--includedir"], check=True, capture_output=True, text=True).stdout.strip()
        module = shared("module", self.directory, f"-I{headers}", own)
        for first in ["pass", f"ctypes.CDLL('{LIBPQ}')", f"ctypes.CDLL('{LIBPQ}', mode=os.RTLD_GLOBAL)"]:
            command = [sys.executable, "-c", CALL.format(first), module]
            with self.subTest(first=first):
                alone = run(command, LD_LIBRARY_PATH=str(self.directory))
                self.assertEqual((alone[0], alone[1].count("somebody service")), (0, 3), alone)
                self.assertEqual(run(command, self.library, LD_LIBRARY_PATH=str(self.directory)), alone)
                acting = run(command, self.library, LD_LIBRARY_PATH=str(self.directory), PGSEAL_PROGRAMS=os.path.basename(os.path.realpath(sys.executable)))
                self.assertEqual(acting, alone)


if __name__ == "__main__":
    unittest.main(verbosity=2)
