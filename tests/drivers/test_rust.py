#!/usr/bin/env python3
"""tokio-postgres and sqlx through pgseal proxy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import NATIVE, Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402

RUST = {"int4": {"i32"}, "int8": {"i64"}, "numeric": {"Numeric", "BigDecimal"}, "float4": {"f32"}, "float8": {"f64"}, "text": {"String"},
        "bool": {"bool"}, "date": {"NaiveDate"}, "timestamp": {"NaiveDateTime"}, "timestamptz": {"DateTime"}, "uuid": {"Uuid"},
        "bytea": {"Vec<u8>"}}
assert RUST.keys() == NATIVE.keys()


class Rust(Drivers):
    native = RUST
    own_errors = {"ranges/too large", "copy/too large"}

    def runs(self, kind, form="inline"):
        self.runs_scenarios([self.built("rust") / "drivers", kind], form)


class TokioPostgres(Rust):
    def test_inline(self):
        self.runs("tokio-postgres")

    def test_isolated(self):
        self.runs("tokio-postgres", "isolated")


class Sqlx(Rust):
    keeps_scale = False

    def test_inline(self):
        self.runs("sqlx")

    def test_isolated(self):
        self.runs("sqlx", "isolated")


if __name__ == "__main__":
    main(__file__, TOOLS)
