"""Random queries of what is made of columns: partitions, domains, arrays, rows, ranges, views, functions (imported by
test_random.py only).

Every method of Objects makes a query or a script for one transaction, which is rolled back.
"""

from random_parts import Parts
from random_reads import Ordered

PARTITIONED = [("ph", "k", "int4"), ("ph", "t", "text"), ("pr", "k", "int4"), ("pl", "t", "text"),
               ("pd", "d", "date"), ("pd", "k", "int4")]


class Objects(Parts):
    """Makes queries of random_schema.py's objects."""

    def partitions(self):
        table, key, ty = self.pick(PARTITIONED)
        conditions = ["{key} {comparison} {value}", "{key} IN ({value}, {value}, {value})", "{key} IS NULL",
                      "{key} BETWEEN {value} AND {value}", "{key} = {value} OR {key} < {value}"]
        return self.fill_of(ty, *(f"SELECT n FROM {{p}} WHERE {one};" for one in conditions),
                            "SELECT n FROM pd WHERE d >= {date} AND k < {int4};",
                            "SELECT n FROM ph WHERE k = {int4} AND t = {text};",
                            "SELECT x.n, y.n FROM {p} x JOIN {p} y USING ({key}) WHERE x.n < 40;",
                            "SELECT count(*), min(n), opened(max({key})) FROM {p} GROUP BY {key};",
                            "SELECT x.n FROM b CROSS JOIN LATERAL (SELECT n FROM {p} p WHERE p.{key} = b.{one}) x;",
                            "PREPARE q AS SELECT n FROM {p} WHERE {key} = $1 OR {key} > $2;\n"
                            "EXECUTE q ({value}, {value});\nDEALLOCATE q;",
                            p=table, key=key)

    def partitions_in_order(self):
        table, order = self.pick([("pr", "k"), ("pl", "t"), ("pd", "d, k"), ("pr", "k DESC"), ("pl", "t, k")])
        return Ordered(f"SELECT n FROM {table} ORDER BY {order}, n LIMIT 30;")

    def domain(self):
        return self.fill("SELECT opened({int4}::small::‹int4›);", "SELECT count(*) FROM a WHERE i1::small > {int4};",
                         "CREATE TEMP TABLE ds (k small UNIQUE);\nINSERT INTO ds SELECT DISTINCT i1 FROM a WHERE i1 < {int4};\n"
                         "SELECT opened(max(k)), count(*) FROM ds WHERE k > {int4};")

    def arrays(self):
        return self.fill("SELECT n FROM held WHERE ar {comparison} ARRAY[{int4}, {int4}];",
                         "SELECT n FROM held WHERE ar {containment} ARRAY[{int4}, {int4}];", "SELECT n FROM held ORDER BY ar, n;",
                         "SELECT n FROM held ORDER BY tr DESC, n;", "SELECT count(*), min(n) FROM held GROUP BY ar;",
                         "SELECT count(*), min(n) FROM held GROUP BY tr;", "SELECT n, array_position(ar, {int4}) FROM held;",
                         "SELECT n, cardinality(array_remove(ar, {int4})) FROM held;",
                         "SELECT count(DISTINCT ar), count(DISTINCT tr) FROM held;",
                         "SELECT n FROM held WHERE {text} = ANY (tr);",
                         "SELECT x.n, y.n FROM held x JOIN held y ON x.ar = y.ar WHERE x.n < 50;",
                         "SELECT n, opened(u) FROM held, unnest(ar) u ORDER BY u, n;",
                         "SELECT opened(max(u)) FROM held, unnest(tr) u;")

    def rows(self):
        return self.fill("SELECT n FROM held WHERE pa {comparison} ROW({int4}, {text})::pair;",
                         "SELECT n FROM held ORDER BY pa, n;",
                         "SELECT count(*), min(n) FROM held GROUP BY pa;", "SELECT count(DISTINCT pa) FROM held;",
                         "SELECT x.n, y.n FROM held x JOIN held y ON x.pa = y.pa WHERE x.n < 50;",
                         "SELECT n, opened((pa).k), opened((pa).t) FROM held;",
                         "SELECT count(*) FROM (SELECT DISTINCT pa FROM held) x;",
                         "SELECT count(*) FROM a x JOIN b y ON ROW(x.i1, x.t1) = ROW(y.i1, y.t1);",
                         "SELECT n FROM held x WHERE pa IN (SELECT pa FROM held WHERE n < 30);")

    def ranges(self):
        return self.fill("SELECT n FROM held WHERE sp @> {int4};", "SELECT n FROM held WHERE sp && span({int4}, {int4});",
                         "SELECT n FROM held WHERE sp << span({int4}, {int4}, '[]');", "SELECT n FROM held ORDER BY sp, n;",
                         "SELECT n, isempty(sp), opened(lower(sp)), opened(upper(sp)) FROM held;",
                         "SELECT count(*), min(n) FROM held GROUP BY sp;",
                         "SELECT n, opened(lower(sp * span({int4}, NULL))) FROM held;",
                         "SELECT count(*) FROM held WHERE sp = sp;")

    def ranges_by_index(self):
        conditions = ["sp @> {int4}", "sp && span({int4}, {int4})", "sp <@ span({int4}, NULL)", "sp -|- span({int4}, {int4})",
                      "sp = span({int4}, {int4})", "sp >> span({int4}, NULL, '[]')", "sp > span({int4}, NULL)",
                      "sp &< span(NULL, {int4})"]
        return self.fill("CREATE INDEX made ON held USING {method} (sp);\nSET LOCAL enable_seqscan = off;\n"
                         f"SELECT n FROM held WHERE {self.pick(conditions)};\n"
                         "INSERT INTO held (n, sp) SELECT n + 1000, sp FROM held WHERE n < 40;\n"
                         "DELETE FROM held WHERE sp @> {int4};\n"
                         "SELECT n FROM held WHERE sp @> {int4};", method=self.pick(["gist", "spgist", "btree", "hash"]))

    def arrays_and_rows_by_index(self):
        method, key = self.pick([("gin", "ar"), ("btree", "ar"), ("hash", "ar"), ("btree", "pa"), ("hash", "pa"),
                                 ("btree", "pa, ar")])
        return self.fill("CREATE INDEX made ON held USING {method} ({key});\nSET LOCAL enable_seqscan = off;\n"
                         "INSERT INTO held (n, ar, pa) SELECT n + 1000, ar, pa FROM held WHERE n < 40;\n"
                         "SELECT n FROM held WHERE ar {containment} ARRAY[{int4}, {int4}];\n"
                         "SELECT n FROM held WHERE pa {comparison} ROW({int4}, {text})::pair;\n"
                         "SELECT n FROM held ORDER BY {key}, n LIMIT 20;", method=method, key=key)

    def views(self):
        return self.fill("SELECT n, m FROM v WHERE i1 {comparison} {int4};",
                         "SELECT count(*), opened(sum(d1)) FROM v WHERE t1 = {text};",
                         "UPDATE a SET i1 = i2 WHERE n % 5 = 0;\nREFRESH MATERIALIZED VIEW CONCURRENTLY mv;\n"
                         "SELECT opened(k), c, n FROM mv;",
                         "SELECT opened(k), c FROM mv WHERE k > {int4};")

    def functions(self):
        return self.fill("SELECT n, opened(least_of(i1, i2)) FROM a;", "SELECT n FROM a WHERE least_of(i1, {int4}) = {int4};",
                         "SELECT f.n, opened(f.k) FROM between_of({int4}, {int4}) f WHERE f.k <> {int4};",
                         "SELECT counted({text}), counted({text});",
                         "SELECT b.n, f.n FROM b, between_of(b.i1, {int4}) f WHERE b.n < 8;",
                         "SELECT n, counted(t1) FROM b WHERE n < 20;")

    def block(self):
        """Whose constants lie in a table, as psql puts none into a block."""
        return self.fill("CREATE TEMP TABLE ends AS SELECT {int4} AS k, {int4} AS l;\n"
                         "CREATE TEMP TABLE out (n int, k ‹int4›, s ‹int8›);\n"
                         "DO $$DECLARE one record; most ‹int4›; total ‹int8›; list ‹int4›[]; BEGIN "
                         "FOR one IN SELECT n, i1, i2, ends.* FROM a, ends WHERE n < 30 ORDER BY n LOOP "
                         "IF most IS NULL OR one.i1 > most THEN most := one.i1; END IF; list := list || one.i1; "
                         "BEGIN INSERT INTO out VALUES (one.n, one.i1 + one.i2, one.i1); "
                         "EXCEPTION WHEN numeric_value_out_of_range THEN INSERT INTO out VALUES (-one.n, most, NULL); END; "
                         "EXIT WHEN most >= one.k AND one.i2 = one.l; END LOOP; "
                         "SELECT sum(i1) INTO total FROM a WHERE i1 = ANY (list); "
                         "INSERT INTO out VALUES (9999, most, total); END$$;\nSELECT n, opened(k), opened(s) FROM out;")
