#!/usr/bin/env python3
"""pgjdbc and Hibernate through pgseal proxy, and through the package of bindings/java."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import NATIVE, Drivers  # noqa: E402
from confidential import TOOLS  # noqa: E402
from inside import Inside  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402

JAVA = {"int4": {"Integer"}, "int8": {"Long"}, "numeric": {"BigDecimal"}, "float4": {"Float"}, "float8": {"Double"}, "text": {"String"},
        "bool": {"Boolean"}, "date": {"LocalDate"}, "timestamp": {"LocalDateTime"}, "timestamptz": {"OffsetDateTime"}, "uuid": {"UUID"},
        "bytea": {"byte[]"}}
assert JAVA.keys() == NATIVE.keys()


class Java(Drivers):
    native = JAVA

    def runs(self, kind, form="inline"):
        built = self.built("java") / "target"
        self.runs_scenarios(["java", "-cp", f"{built}/classes:{built}/dependency/*:{STAGE}/dist/jars/*", "drivers.Main", kind], form)


class Jdbc(Java):
    def test_inline(self):
        self.runs("jdbc")

    def test_isolated(self):
        self.runs("jdbc", "isolated")

    def test_batches_that_become_one_statement(self):
        self.runs("jdbc-rewrites")

    def test_literals(self):
        """Its simple protocol."""
        self.runs("jdbc-simple")


class Hibernate(Java):
    absent = {"copy": "left to the driver", "prepared/with it": "its entities are declared before"}
    own_errors = {"ranges/too large"}

    def test_inline(self):
        self.runs("hibernate")

    def test_isolated(self):
        self.runs("hibernate", "isolated")


class JdbcInside(Inside, Jdbc):
    """By the socket factory, which the URL names."""


class HibernateInside(Inside, Hibernate):
    pass


if __name__ == "__main__":
    main(__file__, TOOLS)
