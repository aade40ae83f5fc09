#!/usr/bin/env python3
"""pgseal proxy: constant expressions beside encrypted columns are computed by the client, with PostgreSQL's results."""

import datetime
import random
import sys
import unittest
from decimal import Decimal
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

NOT_SENT = psycopg2.errors.FeatureNotSupported
# The encrypted type of each plain one.
TYPES = {"integer": "enc_int4", "bigint": "enc_int8", "numeric": "enc_decimal", "double precision": "enc_float8", "date": "enc_date",
         "timestamp without time zone": "enc_timestamp", "timestamp with time zone": "enc_timestamptz"}
NUMBERS = ["0", "1", "7", "-3", "24", ".06", "0.01", "100.00", "2147483647", "3000000000", "9223372036854775807", "1e3", "12345678901234567890",
           "7::numeric", "0.1::float8", "'1.255'::numeric(4, 2)", "'12'::bigint"]
TIMES = ["date '1994-01-31'", "'2024-02-29'::date", "date '0044-03-15 BC'", "timestamp '1999-12-31 23:59:59.5'",
         "'2026-03-28 02:30'::timestamp", "'2026-03-28 02:30'::timestamptz", "timestamptz '2026-10-24 12:00+05'",
         "date '5874897-12-31'", "timestamp '294276-12-31 12:00'", "date 'infinity'"]
INTERVALS = ["interval '1' year", "interval '3' month", "interval '90' day", "interval '36' hour", "interval '90' minute",
             "interval '1.5' second", "interval '-1' month", "'1 year 2 months'::interval", "'1 days 3600.250000 seconds'::interval",
             "interval '1mon2d 3 h'", "interval '2 weeks 1 day'", "interval '300000 years'"]
# The client leaves them to the evaluator, which adds days to an instant in UTC.
LEFT = ["interval '-1 day 2 hours'", "interval '1 day 02:03:04'", "interval '1.5 days'", "interval 'P1Y2M'"]
COUNT = 400
OIDS = (20, 23, 701, 1082, 1114, 1184, 1700)
# What the server says where the client does not compute an expression, or refuses one.
NOT_COMPUTED = {"0A000", "42883", "42804", "22P02", "22003", "42846"}


class Constants(Proxied):
    def number(self, depth):
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice(NUMBERS)
        if self.random.random() < 0.1:
            return f"-({self.number(depth - 1)})"
        return f"({self.number(depth - 1)} {self.random.choice('+-*/%')} {self.number(depth - 1)})"

    def time(self, depth):
        if depth == 0:
            return self.random.choice(TIMES)
        moved = self.random.choice([lambda: self.random.choice(INTERVALS + LEFT), lambda: str(self.random.randint(0, 400))])
        text = f"({self.time(depth - 1)} {self.random.choice('+-')} {moved()})"
        return f"{text}::{self.random.choice(['date', 'timestamp', 'timestamptz'])}" if self.random.random() < 0.2 else text

    def answer(self, cursor, sql):
        try:
            cursor.execute(sql)
            return cursor.fetchone()
        except psycopg2.Error as error:
            return error.pgcode

    def test_results_are_postgresqls(self):
        """Random expressions, in a zone that changes its clock between the days."""
        directory = self.shop()
        self.random = random.Random(30)
        zone = "SET TimeZone = 'Europe/Berlin'"
        plain = psycopg2.connect(host=str(self.cluster_.home), user="postgres", dbname="postgres")
        self.addCleanup(plain.close)
        sealed = self.connect(directory)
        plain.autocommit = sealed.autocommit = True
        psycopg2.extensions.register_type(psycopg2.extensions.new_type(OIDS, "TEXTS", lambda value, cursor: value), sealed)
        computed = 0
        with plain.cursor() as server, sealed.cursor() as proxy:
            for cursor in (server, proxy):
                cursor.execute(zone)
            for _ in range(COUNT):
                text = self.number(3) if self.random.random() < 0.5 else self.time(2)
                known = self.answer(server, f"SELECT pg_typeof({text})::text, ({text})::text")
                if isinstance(known, str):
                    found = self.answer(proxy, f"SELECT ({text})::enc_decimal")
                    self.assertIsInstance(found, str, f"{text}: {known} {found}")
                    continue
                kind, value = known
                in_utc = kind.endswith("with time zone") and any(left in text for left in LEFT)
                if kind not in TYPES or in_utc:
                    continue
                with self.subTest(text=text):
                    found = self.answer(proxy, f"SELECT ({text})::{TYPES[kind]}")
                    if isinstance(found, str):
                        self.assertIn(found, NOT_COMPUTED, f"{text}: {value}")
                        continue
                    self.assertEqual(found, (value,), text)
                    computed += 1
        self.assertGreater(computed, COUNT // 2)


if __name__ == "__main__":
    main(__file__, TOOLS)
