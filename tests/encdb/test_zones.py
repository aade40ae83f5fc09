#!/usr/bin/env python3
"""timezone() of encrypted times, as which the proxy sends AT TIME ZONE: the zones that PostgreSQL knows, by its names for them,
and one request for a batch of rows.

That results are PostgreSQL's for all kinds of zones is asked by tests/encdb-values and test_differential.py.
"""

import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, programs  # noqa: E402
from pgseal_test import main, run  # noqa: E402
from proxied import Proxied  # noqa: E402

SETUP = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT g AS id, p, p::timestamp AS q, encdb.enc_timestamptz_encrypt(p) AS e, encdb.enc_timestamp_encrypt(p::timestamp) AS f,
    CASE g % 3 WHEN 0 THEN 'UTC' WHEN 1 THEN 'America/New_York' END AS zone
    FROM generate_series(1, 3000) g, LATERAL (SELECT '2024-01-01'::timestamptz + g * interval '3 hours 7 minutes') s(p);
INSERT INTO t (id, e, zone) VALUES (0, NULL, 'UTC'), (-1, encdb.enc_timestamptz_encrypt('infinity'), 'UTC');
UPDATE t SET p = 'infinity' WHERE id = -1;
"""
# Names that PostgreSQL takes, in whatever letters; and those that mean one offset, or none.
ZONES = ["UTC", "utc", "Europe/Berlin", "europe/berlin", "Z", "CET", "cest", "EST", "PST", "Etc/GMT-14", "Asia/Kathmandu", "America/St_Johns",
         "CST6CDT,M3.2.0,M11.1.0", "<+0530>-5:30", "Antarctica/Troll", "+3", "-05:00", "A5"]
UNKNOWN = ["", "Nowhere/Land", "xyzzy", "Europe/", "a b"]


class Zones(Proxied):
    def servers(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf="max_parallel_workers_per_gather = 0\n")
            self.as_owner(server, SETUP)
            with self.subTest(form=form):
                yield form, server

    def test_names_of_zones_are_postgresqls(self):
        for _, server in self.servers():
            differs = "SELECT count(*) FROM t WHERE encdb.decrypt(encdb.timezone({0}, e)) IS DISTINCT FROM p AT TIME ZONE {0} OR encdb.decrypt(encdb.timezone({0}, f)) IS DISTINCT FROM q AT TIME ZONE {0}"
            for zone in [*(f"'{zone}'" for zone in ZONES), "zone", "NULL", "lower(zone)"]:
                with self.subTest(zone=zone):
                    self.assertEqual(self.as_owner(server, differs.format(zone)), "0")
            for zone in UNKNOWN:
                self.as_owner(server, f"SELECT encdb.timezone('{zone}', e) FROM t", error=f'time zone "{zone}" not recognized')
            self.as_owner(server, "SELECT encdb.timezone('MSK', e) FROM t", error='time zone "MSK" is none for encrypted times')
            self.as_owner(server, "SELECT timezone(interval '1 hour', e) FROM t", error="function timezone.interval, enc_timestamptz. does not exist")
            self.as_owner(server, "SELECT e AT TIME ZONE 'UTC' FROM t", error="function pg_catalog.timezone.unknown, enc_timestamptz. does not exist")
            # Plain times have no other candidates than without the extension.
            plain = "SELECT '2024-07-01 12:00' AT TIME ZONE 'UTC' = timezone('UTC', '2024-07-01 12:00'::timestamptz)"
            self.assertEqual(server.psql(plain + "; PREPARE q AS SELECT $1 AT TIME ZONE 'UTC'; EXECUTE q('2024-07-01')"), "t\n2024-07-01 00:00:00")

    def test_the_machines_database_is_used_as_by_the_server(self):
        """Before 1970 Debian's has clocks that others take from a larger town."""
        if "--with-system-tzdata" not in run([programs() / "pg_config", "--configure"]).stdout:
            self.skipTest("this PostgreSQL has a database of its own")
        for _, server in self.servers():
            differs = """WITH times AS (SELECT g, encdb.enc_timestamptz_encrypt(g) AS e FROM generate_series('1900-01-01'::timestamptz, '1975-01-01', '67 days') g)
                SELECT count(*) FROM times WHERE encdb.decrypt(encdb.timezone('{0}', e)) <> g AT TIME ZONE '{0}'"""
            for zone in ("Europe/Stockholm", "Europe/Amsterdam", "Europe/Oslo", "America/Tijuana"):
                self.assertEqual(self.as_owner(server, differs.format(zone)), "0", zone)

    def test_rights_and_requests(self):
        for form, server in self.servers():
            ask = "SELECT count(*) FROM t WHERE extract(month FROM encdb.timezone('Asia/Tokyo', e)) = :'six'"
            six = "SELECT encdb.enc_decimal_encrypt(6) AS six \\gset\n"
            expected = server.psql("SELECT count(*) FROM t WHERE extract(month FROM p AT TIME ZONE 'Asia/Tokyo') = 6")
            self.as_owner(server, six + ask, operations="convert-in,extract,compare-derived", error="has not granted cast to this session")
            self.as_owner(server, six + ask, operations="convert-in,cast,compare-derived", error="has not granted extract to this session")
            self.assertEqual(self.as_owner(server, six + ask, operations="convert-in,cast,extract,compare-derived"), expected)
            if form == "isolated":
                counted = f"{six}SELECT encdb.requests() AS before \\gset\n{ask};\nSELECT encdb.requests() - :before"
                self.assertLess(int(self.as_owner(server, counted).splitlines()[-1]), 40)
            index = "CREATE INDEX i ON t ((extract(year FROM encdb.timezone('UTC', e))))"
            self.as_owner(server, index)
            plan = self.as_owner(server, "SET enable_seqscan = off; EXPLAIN (COSTS OFF) SELECT * FROM t WHERE extract(year FROM encdb.timezone('UTC', e)) = encdb.enc_decimal_encrypt(2024)")
            self.assertIn("Index", plan)

    def test_through_the_proxy(self):
        directory = self.shop()
        connection = self.connect(directory)
        cursor = connection.cursor()
        cursor.execute("SET TimeZone = 'America/New_York'")
        cursor.execute("INSERT INTO person (id, seen) VALUES (1, '2026-07-01 23:30+00'), (2, '2026-01-01 12:00+00')")
        cursor.execute("SELECT id, (seen AT TIME ZONE 'Europe/Berlin')::text, extract(hour FROM seen AT TIME ZONE 'UTC') FROM person ORDER BY id")
        self.assertEqual([(id_, str(shown), int(hour)) for id_, shown, hour in cursor.fetchall()], [(1, "2026-07-02 01:30:00", 23), (2, "2026-01-01 13:00:00", 12)])
        # As Django's ORM asks for a day of a zone.
        cursor.execute("SELECT count(*) FROM person WHERE date_trunc('day', seen AT TIME ZONE 'Europe/Berlin') = %s", ("2026-07-02",))
        self.assertEqual(cursor.fetchall(), [(1,)])
        cursor.execute("SELECT count(*) FROM person WHERE (seen AT TIME ZONE 'Europe/Berlin')::date = '2026-07-02'")
        self.assertEqual(cursor.fetchall(), [(1,)])
        for zone in ("secretNowhere", "secret5"):
            with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "nothing was sent"):
                cursor.execute(f"SELECT seen AT TIME ZONE '{zone}' FROM person")
            connection.rollback()
        self.assert_never_in_clear("2026-07-02", "secretNowhere", "secret5")


if __name__ == "__main__":
    main(__file__, TOOLS)
