"""Where scripts/fetch-drivers.sh puts what it builds of a directory here, and the tests find it: CACHE/drivers/NAME-DIGEST.

The digest is that of the directory's files, so that trees of other commits have their own. CACHE is $PGSEAL_CACHE, else
/var/cache/pgseal for root and for the user that root's tests run as, else ~/.cache/pgseal. Usage: places.py NAME prints the place.
"""

import hashlib
import os
import pwd
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Programs that are run as they are: what is installed depends on these alone.
LOCKS = {"python": ["python/requirements.txt"], "node": ["node/package.json", "node/package-lock.json"],
         "moto": ["../keys/requirements.txt"], "suites": ["suites/requirements.txt", "go/go.mod", "go/go.sum"],
         "miniflux": ["../apps/go.mod", "../apps/go.sum"], "oscar": ["../apps/requirements.txt"]}

# What is built with a directory, beside it: the package that it uses, and the page whose program it runs.
BESIDE = {"go": ["../../bindings/go/*", "../../crates/encdb/library/include/*", "../../docs/confidential/in-process.md"]}


def files_of(name):
    """The files that decide what is built."""
    if name in LOCKS:
        return [HERE / file for file in LOCKS[name]]
    beside = [path for pattern in BESIDE.get(name, []) for path in sorted(HERE.glob(pattern))]
    return beside + sorted(path for path in (HERE / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def place(name):
    digest = hashlib.sha256()
    for file in files_of(name):
        content = file.read_bytes()
        digest.update(f"{os.path.relpath(file, HERE)} {len(content)}\n".encode() + content)
    return cache() / "drivers" / f"{name}-{digest.hexdigest()[:12]}"


def cache():
    if "PGSEAL_CACHE" in os.environ:
        return Path(os.environ["PGSEAL_CACHE"])
    own = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache/pgseal"
    is_roots = os.getuid() == 0 or "PGSEAL_TEST_STAGE" in os.environ and not own.exists()
    return Path("/var/cache/pgseal") if is_roots else own


# A module of tests that other tools run with an argument is no program of tests.
if __name__ == "__main__" and sys.argv[1:]:
    print(place(sys.argv[1]))
