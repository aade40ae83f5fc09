"""Random statements that write, and look at what was written (imported by test_random.py only).

Every method of Writes makes a script for one transaction, which is rolled back.
"""

from random_parts import EXACT, Parts
from statements import TYPES


class Writes(Parts):
    """Makes scripts that change rows, keys or indexes."""

    def updated(self):
        ty = self.pick(TYPES)
        new = self.fill_of(ty, "{value}", "CASE WHEN {where} THEN b.{one} ELSE {value} END", "NULL",
                           "(SELECT x.{one} FROM a x WHERE x.{one} < b.{one} ORDER BY x.{one} DESC, x.n LIMIT 1)",
                           where=self.condition("b."))
        return self.fill_of(ty, "UPDATE b SET {one} = {new} WHERE {which} RETURNING n, opened({canonical});\n"
                            "SELECT n FROM b WHERE {condition};\nSELECT n FROM b WHERE {one} <= {value};\n"
                            "SELECT n, opened(k), opened(old) FROM log;", new=new, which=self.conditions(1, "b."))

    def updated_by_another(self):
        return self.fill_of(self.pick(TYPES),
                            "UPDATE b SET i2 = s.m FROM (SELECT {one} AS k, max(i1) AS m FROM a GROUP BY {one}) s "
                            "WHERE b.{other} = s.k RETURNING b.n, opened(b.i2);\n"
                            "DELETE FROM b WHERE EXISTS (SELECT FROM a WHERE a.{one} = b.{one} AND {where}) RETURNING n;\n"
                            "SELECT n FROM b;", where=self.condition("a."))

    def merged(self):
        return self.fill_of(self.pick(["int4", "uuid", "numeric", "date", "bool"]),
                            "CREATE TEMP TABLE m (LIKE a);\nINSERT INTO m SELECT * FROM a WHERE n < 60;\n"
                            "MERGE INTO m USING (SELECT DISTINCT ON ({one}) * FROM b ORDER BY {one}, n) s "
                            "ON m.{one} = s.{one} AND m.n < 40 WHEN MATCHED AND {old} THEN DELETE "
                            "WHEN MATCHED THEN UPDATE SET n = m.n + 1000, t1 = s.t1 "
                            "WHEN NOT MATCHED AND {new} THEN INSERT (n, {one}) VALUES (s.n + 5000, s.{one});\n"
                            "SELECT n, opened(t1) FROM m;\nSELECT count(*) FROM m WHERE {one} IS NULL;",
                            old=self.condition("m."), new=self.condition("s."))

    def moved(self):
        """Rows that an UPDATE moves to another partition; which one of hashes is not the same on both sides."""
        return self.fill("UPDATE {parts} SET k = {new} WHERE n % {divisor} = 0;\nSELECT n, opened(k) FROM {parts};\n"
                         "SELECT n, tableoid::regclass::text FROM pr;", parts=self.pick(["pr", "ph"]), divisor=self.pick([2, 3]),
                         new=self.fill("{int4}", "CASE WHEN k < {int4} THEN k END"))

    def referring(self):
        """A key and what refers to it."""
        return self.fill("DELETE FROM par WHERE k = {int4};\n", "INSERT INTO chi VALUES (1000, {int4});\n",
                         "UPDATE par SET k = {int4} WHERE n = (SELECT min(n) FROM par WHERE k < {int4});\n",
                         "INSERT INTO par VALUES ({int4}, NULL, 0);\n", "INSERT INTO chi VALUES (1001, NULL);\n",
                         "UPDATE chi SET k = {int4} WHERE n % 2 = 0;\n"
                         ) + "SELECT n, opened(k) FROM par;\nSELECT n, opened(k) FROM chi;"

    def conflicting(self):
        first = self.fill("INSERT INTO uni VALUES (1000, {numeric}, {text}) ON CONFLICT (k) "
                          "DO UPDATE SET n = uni.n + 1000, t = EXCLUDED.t RETURNING n, opened(t);\n",
                          "INSERT INTO uni SELECT n + 500, d1, t1 FROM b ORDER BY n ON CONFLICT DO NOTHING;\n",
                          "INSERT INTO uni VALUES (1, {numeric}, {text});\n", "UPDATE uni SET k = {numeric} WHERE n % 7 = 0;\n",
                          "INSERT INTO uni SELECT DISTINCT ON (d2) n + 500, d2, t1 FROM b WHERE d2 IS NOT NULL ORDER BY d2, n "
                          "ON CONFLICT (k) DO UPDATE SET n = -uni.n;\n")
        return first + "SELECT n, opened(t) FROM uni;"

    def unique(self):
        ty = self.pick(TYPES)
        return self.fill_of(ty, "CREATE TEMP TABLE q (n int, k {type}, UNIQUE{nulls} (k));\n"
                            "INSERT INTO q SELECT DISTINCT ON ({one}) n, {one} FROM a ORDER BY {one}, n;\n"
                            "INSERT INTO q VALUES (0, {value}), (1, {second}) ON CONFLICT (k) DO UPDATE SET n = q.n + 500;\n"
                            "SELECT n FROM q;\nUPDATE q SET k = (SELECT {other} FROM a WHERE a.n = q.n) WHERE n % 2 = 0;\n"
                            "SELECT count(*) FROM q;",
                            nulls=self.pick(["", " NULLS NOT DISTINCT"]), second=self.pick([self.constant(ty), f"NULL::‹{ty}›"]))

    def generated(self):
        one_row = "INSERT INTO gen (n, x, y) VALUES (9, {int8}, {int8}) RETURNING opened(z);\n"
        return self.fill("INSERT INTO gen (n, x, y) VALUES (0, {int8}, {int8}), (1, NULL, {int8}) RETURNING n, opened(z);\n"
                         f"{one_row}{one_row}SELECT n FROM gen ORDER BY z, n;")

    def inherited(self):
        return self.fill("UPDATE parent SET k = {int8} WHERE k > {int8};\nSELECT n, opened(k) FROM parent;",
                         "DELETE FROM parent WHERE k = {int8};\nSELECT n FROM ONLY parent;",
                         "SELECT n FROM parent WHERE k {comparison} {int8};", "SELECT n FROM parent ORDER BY k, n LIMIT 40;",
                         "SELECT opened(min(k)), opened(max(k)) FROM parent;")

    def locked(self):
        return self.fill("SELECT n FROM b WHERE {condition} ORDER BY n FOR UPDATE;")

    def undone(self):
        """Savepoints, after an error and after a row that was not to stay."""
        return self.fill_of(self.pick(EXACT),
                            "SAVEPOINT s;\nSELECT opened(sum({one} / ({other} - {other}))) FROM a;\nROLLBACK TO s;\n"
                            "SELECT opened(sum({one})), count(DISTINCT {other}) FROM a;\n"
                            "INSERT INTO b (n, {one}) VALUES (-1, {value});\n"
                            "SAVEPOINT s;\nINSERT INTO b (n, {one}) VALUES (-1, {value});\nROLLBACK TO s;\n"
                            "SELECT n FROM b WHERE {one} >= {value};")

    def copied(self):
        """To a file and back; psql's variable says which."""
        return self.fill_of(self.pick(TYPES), "CREATE TEMP TABLE c AS SELECT n, {one}, t1 FROM a WITH NO DATA;\n"
                            "COPY (SELECT WHERE false) TO :'copied';\n"  # the next one may fail before it makes the file
                            "COPY (SELECT n, {one}, t1 FROM a WHERE {condition}) TO :'copied' {how};\n"
                            "COPY c FROM :'copied' {how};\n"
                            "SELECT x.n FROM c x JOIN a y ON x.n = y.n AND x.{one} IS NOT DISTINCT FROM y.{one} "
                            "AND x.t1 IS NOT DISTINCT FROM y.t1;", how=self.pick(["", "(FORMAT binary)", "(FORMAT csv)"]))

    def rebuilt(self):
        """What rewrites tables and builds indexes, and what is found after it."""
        ty, table = self.pick(TYPES), self.table()
        what = self.fill_of(ty, "CREATE INDEX made ON {t} ({one}, n);\nCLUSTER {t} USING made;\n", "REINDEX TABLE {t};\n",
                            "CREATE UNIQUE INDEX made ON {t} ({one}{direction}, n);\n", "ANALYZE {t};\n",
                            "CREATE INDEX made ON {t} USING hash ({one});\n",
                            "ALTER TABLE {t} ADD COLUMN extra {type} DEFAULT {value};\n",
                            "SET LOCAL min_parallel_table_scan_size = 0;\nCREATE INDEX made ON big (t, k);\n",
                            "ALTER TABLE {t} ADD CONSTRAINT one EXCLUDE USING btree ({one} WITH =, n WITH =);\n",
                            "ALTER TABLE {t} ADD CHECK ({one} <= {value});\n", "ALTER TABLE {t} ALTER n TYPE bigint;\n",
                            t=table)
        return what + self.fill_of(ty, "SET LOCAL enable_seqscan = off;\nSELECT n FROM {t} WHERE {one} {comparison} {value};\n"
                                   "SELECT n FROM {t} WHERE {conditions};\n"
                                   "SELECT count(*), sum(n) FROM big WHERE k = {int4} OR t > {text};", t=table)
