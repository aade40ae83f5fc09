"""The scenarios with a package of bindings/ inside the driver's process, in place of a proxy (imported by tests of this directory)."""

from pgseal_test import STAGE, run

PAGE = "docs/confidential/in-process.md"
# What decides where places.py finds what was built of the packages.
SOURCES = ["bindings", "crates/encdb/library/include", PAGE]


def node_modules(directory, drivers):
    """NODE_PATH with the package of bindings/node, unpacked in this directory, and what `drivers` has of others."""
    package, = (STAGE / "dist/npm").glob("pgseal-*.tgz")
    place = directory / "modules/pgseal"
    place.mkdir(parents=True)
    run(["tar", "--extract", "--file", package, "--strip-components=1", "--directory", place])
    return f"{place.parent}:{drivers / 'node_modules'}"


class Inside:
    """A class of tests of a driver, behind which there is no proxy, but a library that leads to the server."""

    def proxy(self, cluster, *_):
        server = f"host={cluster.home} port={cluster.environment.get('PGPORT', 5432)} user=postgres dbname=postgres"
        self.inside = {"server": server, "identity": str(self.directory / "owner"), "accept": "software"}
        return cluster.home

    def runs_scenarios(self, command, form="inline", environment=None, **options):
        """Afterwards there is no socket."""
        runtime = self.directory / "runtime"
        runtime.mkdir(mode=0o700)
        super().runs_scenarios(command, form, {"XDG_RUNTIME_DIR": str(runtime), **(environment or {})}, **options)
        self.assertEqual(list(runtime.iterdir()), [])
