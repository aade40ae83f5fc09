#!/usr/bin/env python3
"""node-postgres and Knex through pgseal proxy, and through the package of bindings/node."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import HERE, NATIVE, Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from inside import Inside, node_modules  # noqa: E402
from pgseal_test import main  # noqa: E402

JAVASCRIPT = {"int4": {"number"}, "int8": {"string"}, "numeric": {"string"}, "float4": {"number"}, "float8": {"number"}, "text": {"string"},
              "bool": {"boolean"}, "date": {"Date"}, "timestamp": {"Date"}, "timestamptz": {"Date"}, "uuid": {"string"},
              "bytea": {"Buffer"}}
assert JAVASCRIPT.keys() == NATIVE.keys()


class Node(Drivers):
    native = JAVASCRIPT
    unit = "milliseconds"
    absent = {"copy": "left to another package"}

    def node(self, program):
        return ["node", HERE / "node" / program]

    def runs(self, program, form="inline"):
        self.runs_scenarios(self.node(program), form, {"NODE_PATH": node_modules(self.directory, self.built("node"))})


class Pg(Node):
    def test_inline(self):
        self.runs("with_pg.js")

    def test_isolated(self):
        self.runs("with_pg.js", "isolated")


class Knex(Node):
    absent = {**Node.absent, "cancelled/cancel": "left to the driver"}
    uncounted = {"insert/rows"}

    def test_inline(self):
        self.runs("with_knex.js")

    def test_isolated(self):
        self.runs("with_knex.js", "isolated")


class PgInside(Inside, Pg):
    pass


class KnexInside(Inside, Knex):
    """By the URL, where Pg takes an object."""


if __name__ == "__main__":
    main(__file__, TOOLS)
