#!/usr/bin/env python3
"""pgx through pgseal proxy, by itself and below Go's database/sql, and through the package of bindings/go."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import NATIVE, Drivers, in_long_form  # noqa: E402
from confidential import TOOLS  # noqa: E402
from inside import SOURCES, Inside  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402

GO = {"int4": {"int32"}, "int8": {"int64"}, "numeric": {"pgtype.Numeric"}, "float4": {"float32"}, "float8": {"float64"}, "text": {"string"},
      "bool": {"bool"}, "date": {"time.Time"}, "timestamp": {"time.Time"}, "timestamptz": {"time.Time"}, "uuid": {"[16]byte"},
      "bytea": {"[]byte"}}
assert GO.keys() == NATIVE.keys()
# What database/sql has no type for is text.
SQL = {**GO, "int4": {"int64", "int32"}, "numeric": {"string"}, "float4": {"float64"}, "uuid": {"string"}}


class Go(Drivers):
    own_errors = {"ranges/too large", "copy/too large"}

    def runs(self, kind, form="inline"):
        self.runs_scenarios(self.drivers(kind), form)

    def drivers(self, kind):
        """The program, which is linked with the library of the package."""
        return ["env", f"LD_LIBRARY_PATH={STAGE}/dist/lib", self.built("go") / "drivers", kind]


class Pgx(Go):
    native = GO
    # It informs the server that the application gives up.
    other_errors = {"copy/too large": "57014"}

    def test_inline(self):
        self.runs("pgx")

    def test_isolated(self):
        self.runs("pgx", "isolated")

    @in_long_form
    def test_large(self):
        self.runs_large(self.drivers("pgx"))

    def test_literals(self):
        """Its simple protocol."""
        self.runs("pgx-text")


class DatabaseSql(Go):
    native = SQL
    absent = {"copy": "not in database/sql"}
    own_errors = {"ranges/too large", "cancelled/cancel"}

    def test_inline(self):
        self.runs("sql")

    def test_isolated(self):
        self.runs("sql", "isolated")


class PgxInside(Inside, Pgx):
    pass


class DatabaseSqlInside(Inside, DatabaseSql):
    pass


if __name__ == "__main__":
    main(__file__, [*TOOLS, *SOURCES])
