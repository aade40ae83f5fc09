"""A PostgreSQL that was copied from where it was built for: scripts/copy-server.sh makes one (imported by tests)."""

from pgseal_test import PGSEAL, STAGE, run


def wrappers_of_copy(pg, root, pgseal=PGSEAL, name="wrappers"):
    """The wrappers of the programs in `pg`, below the copy's directory `root`; made by `pgseal` at their first use. The copy finds
    its files from its programs' place, so the wrappers lie in a directory that looks like it."""
    directory, original = STAGE / "work" / name, root
    into = directory / pg.relative_to(root)
    if not into.exists():
        for part in pg.relative_to(root).parts:
            directory.mkdir()
            for entry in original.iterdir():
                if entry.name != part:
                    (directory / entry.name).symlink_to(entry)
            directory, original = directory / part, original / part
        run([pgseal, "bindir", "--pg", pg, "--into", into])
    return into
