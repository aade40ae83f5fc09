#!/usr/bin/env python3
"""pgseal proxy: constant expressions beside encrypted columns are computed by the client, with PostgreSQL's results."""

import random
import re
import sys
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
NUMBERS = ["0", "1", "7", "-3", "24", ".06", "0.01", "100.00", "2147483647", "3000000000", "9223372036854775807", "1e3",
           "12345678901234567890",
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
COLUMNS = {"login": "timestamptz", "born": "date", "age": "int4", "paid": "numeric", "email": "text"}
ROWS = """(1, '2025-01-01+00', '2025-06-01 10:00+00', '1990-06-15', 1, 10.50, 'ada@x'),
    (2, NULL, '2026-06-01 10:00+00', '1991-06-15', 2, 0.06, 'bob'), (3, NULL, NULL, NULL, NULL, NULL, NULL)"""
# As drivers and ORMs write them, and in parameters of PREPARE. The table is {t}.
STATEMENTS = [
    "UPDATE {t} SET login = '2026-01-02T03:04:05.678+00:00'::timestamptz, plain = '2026-01-01+00'::timestamptz WHERE id = 1",
    "UPDATE {t} SET login = (CASE WHEN (id = 2) THEN '2026-02-02+00'::timestamptz ELSE NULL END)::timestamp with time zone "
    "WHERE id IN (2, 3)",
    "SELECT id FROM {t} WHERE login > '2026-01-03+00'::timestamptz - '30 days'::interval AND plain < now() ORDER BY id",
    "SELECT id FROM {t} WHERE login < now() ORDER BY id", "SELECT id FROM {t} WHERE born < CURRENT_DATE - 18 AND plain > login ORDER BY id",
    "SELECT id FROM {t} WHERE login BETWEEN '2026-01-01+00'::timestamptz AND '2026-12-31 23:59:59.999999+00'::timestamptz ORDER BY id",
    "PREPARE a (int, timestamptz) AS UPDATE {t} SET login = $2::timestamptz, plain = now() WHERE id = $1::int; "
    "EXECUTE a(1, '2026-05-05 01:00+02')",
    "PREPARE b (timestamptz) AS SELECT id FROM {t} WHERE login > $1::timestamptz - interval '1 day' ORDER BY id; "
    "EXECUTE b('2026-01-01+00')",
    "PREPARE c (date) AS SELECT id FROM {t} WHERE born BETWEEN $1::date AND $1::date + interval '1 year' ORDER BY id; "
    "EXECUTE c('1990-01-01')",
    "PREPARE d (date) AS SELECT id FROM {t} WHERE born < $1::date + 30 ORDER BY id; EXECUTE d('1990-06-01')",
    "SELECT extract(year FROM born), count(*) FROM {t} WHERE extract(month FROM born) = 6 GROUP BY 1 ORDER BY 1",
    "SELECT id FROM {t} WHERE born > '1990-06-15 10:00'::timestamp OR born + interval '1 day' > '1991-06-15 10:00' ORDER BY id",
    "SELECT id FROM {t} WHERE born IN (date '1990-06-15', date '1991-06-14' + interval '1 day') ORDER BY id",
    "SELECT born - 7 * 2, born - date '1990-06-01' FROM {t} WHERE born - date '1990-06-01' > 3 ORDER BY id",
    "SELECT id FROM {t} WHERE age IN (1.5, 2) OR age BETWEEN 1.5 AND 10 / 4 OR age * 0.5 > 0.6 ORDER BY id",
    "SELECT id FROM {t} WHERE paid BETWEEN .06 - 0.01 AND .06 + 0.01 OR age = 7 / 4 ORDER BY id",
    "SELECT sum(paid * (1 - paid)), sum(age * 1.5), 100.00 * sum(CASE WHEN email LIKE 'a%' THEN paid ELSE 0 END) / sum(paid) FROM {t}",
    "UPDATE {t} SET born = date '2024-01-31' + interval '1 month', age = 5 / 2, paid = 7 / 2 WHERE id = 1 RETURNING born, age, paid",
    "SELECT upper(email || 'x'), length(email || 'yz') FROM {t} ORDER BY id",
    "SELECT email || 'x', replace(email, 'b', 'p'), count(*) FROM {t} GROUP BY email || 'x', replace(email, 'b', 'p') ORDER BY email || 'x'",
    "SELECT DISTINCT paid + 0.5, round(paid * 1.05, 1) FROM {t} ORDER BY round(paid * 1.05, 1), paid + 0.5",
    "SELECT date_trunc('year', login), count(*) FROM {t} WHERE date_trunc('month', login) >= '2025-06-01' GROUP BY date_trunc('year', login) "
    "ORDER BY 1",
    "SELECT id FROM {t} WHERE ceil(paid) = 11 OR floor(age / 2) = 1 OR trunc(paid, 1) = 0.0 ORDER BY id",
    "SELECT left(email, 2), right(email, -1), initcap(email), reverse(email), repeat(email, 2), trim(email), lpad(email, 7, '0'), rpad(email, 2) FROM {t} ORDER BY id",
    "SELECT ltrim(email, 'a'), trim(both 'xa' FROM email), rtrim(email, 'b'), replace(email, 'a', 'o'), replace(email, '@', '') FROM {t} ORDER BY id",
    "SELECT position('d' IN email), strpos(email, '@x'), split_part(email, '@', -1), starts_with(email, 'ad') FROM {t} ORDER BY id",
    "SELECT id FROM {t} WHERE position('b' IN email) > 2 OR starts_with(email, 'a') OR split_part(email, '@', 1) = 'bo' ORDER BY id",
    "SELECT id FROM {t} WHERE email ~ '^a' OR email ~* 'O@' OR email SIMILAR TO '%(x|y)' ORDER BY id",
    "SELECT concat_ws(' - ', email, 'x'), concat('<', email, '>') FROM {t} ORDER BY id",
    "SELECT string_agg(email, ', ' ORDER BY id), stddev(age), variance(paid) FROM {t}",
    "PREPARE r (text) AS SELECT id FROM {t} WHERE email !~ $1 AND email NOT SIMILAR TO 'a#%' ESCAPE '#' ORDER BY id; EXECUTE r('^b')",
    "PREPARE e (text, text, int) AS SELECT id FROM {t} WHERE replace(email, $1, $2) = 'oda@x' OR left(email, $3) = 'bo' ORDER BY id; "
    "EXECUTE e('a', 'o', 2)",
]
CLOCK = ["SELECT login - now() FROM {t}", "SELECT id FROM {t} WHERE email LIKE CURRENT_USER", "UPDATE {t} SET login = CURRENT_TIMESTAMP WHERE id = 1", "INSERT INTO {t} (id, login) VALUES (9, now() - interval '1 day')"]
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

    def twins(self, form):
        """Connections to a plain table and, through the proxy, to an encrypted one, with the same rows."""
        self.shop(form)
        for table, prefix in (("p", ""), ("e", "enc_")):
            columns = ", ".join(f"{name} {prefix}{'decimal' if prefix and ty == 'numeric' else ty}" for name, ty in COLUMNS.items())
            self.cluster_.psql(f"CREATE TABLE {table} (id int PRIMARY KEY, plain timestamptz, {columns})")
        self.client(self.cluster_, "column", "add", "--all")
        plain = psycopg2.connect(host=str(self.cluster_.home), user="postgres", dbname="postgres")
        self.addCleanup(plain.close)
        pair = {"p": plain, "e": self.connect(self.proxy(self.cluster_))}
        for table, connection in pair.items():
            connection.autocommit = True
            connection.cursor().execute(f"INSERT INTO {table} (id, plain, {', '.join(COLUMNS)}) VALUES {ROWS}")
        return pair

    def test_statements_give_what_they_give_on_plain_columns_inline(self):
        self.statements("inline")

    def test_statements_give_what_they_give_on_plain_columns_isolated(self):
        self.statements("isolated")

    def statements(self, form):
        pair = self.twins(form)
        for statement in STATEMENTS:
            results = []
            for table, connection in pair.items():
                with connection.cursor() as cursor:
                    cursor.execute(statement.replace("{t}", table))
                    results.append(cursor.fetchall() if cursor.description else cursor.rowcount)
            with self.subTest(statement=statement):
                self.assertEqual(*results)
        with pair["e"].cursor() as cursor:
            for statement in CLOCK:
                with self.subTest(statement=statement), self.assertRaises(NOT_SENT) as refused:
                    cursor.execute(statement.replace("{t}", "e"))
                self.assertIn("give the time or the name as a parameter", str(refused.exception))
            # As the page on errors says
            cursor.execute("UPDATE e SET login = encdb.enc_timestamptz_encrypt(now()) WHERE login < encdb.enc_timestamptz_encrypt(now())")
            self.assertGreater(cursor.rowcount, 0)
        # Without the times, whose milliseconds may be .06.
        log = re.sub(r"^[-0-9]+ [:.0-9]+ ", "", (self.cluster_.home / "log").read_text(), flags=re.M)
        sent = [line for line in log.splitlines() if re.search(r"\be\b", line) and " p " not in line]
        self.assertTrue(sent)
        for secret in ("1991-06-1", "'ada", "1990-06-01", ".06", "2026-02-02"):
            self.assertEqual([line for line in sent if secret in line], [], secret)

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
