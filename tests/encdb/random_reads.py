"""Random queries that read: conditions, orders, joins, groups, windows (imported by test_random.py only).

Every method of Reads makes a query. Results are counts, n, or opened values that all plans give alike; a query that is not
Ordered can give its rows in any order.
"""

from random_parts import BIG, CANONICAL, EXACT, MIXED, Parts
from statements import TYPES, columns


class Ordered(str):
    """A query whose rows have one order."""


class Reads(Parts):
    """Makes queries that change nothing."""

    def filtered(self):
        return self.fill("SELECT n FROM {table} WHERE {conditions};")

    def filtered_in_order(self):
        return Ordered(self.fill("SELECT n FROM a WHERE {conditions} ORDER BY {order}, n{tail};",
                                 tail=self.pick(["", " LIMIT 7", " OFFSET 3 LIMIT 20"])))

    def in_order(self):
        return Ordered(self.fill("SELECT n, opened({canonical}) FROM a ORDER BY {order}, n{tail};",
                                 tail=self.pick(["", "", " LIMIT 5"])))

    def ties(self):
        return self.fill("SELECT count(*) FROM (SELECT n FROM a ORDER BY {order} FETCH FIRST 4 ROWS WITH TIES) x;")

    def many_in_order(self):
        order = self.pick(["k", "t", "k, t", "t DESC, k", "d, t", "d DESC NULLS LAST, k", 't COLLATE "C"', "k NULLS FIRST, d"])
        return self.fill("SELECT md5(string_agg(n::text, ',')) FROM (SELECT n FROM big WHERE n < {most} ORDER BY {by}, n) x;",
                         most=self.pick([200, 1500, BIG]), by=order)

    def many_grouped(self):
        key = self.pick(["k", "t", "d", "k, d", "t, d", "ROLLUP (d, k)", "CUBE (k, t)", "GROUPING SETS (k, t, ())"])
        what = self.pick(["opened(sum(k))", "opened(max(t))", "opened(avg(d))", "count(DISTINCT t)", "opened(min(k))",
                          "array_agg(n ORDER BY k, n)"])
        return self.fill("SELECT min(n), max(n), count(*), md5({what}::text) FROM big WHERE n < {most} GROUP BY {key};",
                         what=what, most=self.pick([300, BIG // 2]), key=key)

    def many_joined(self):
        return self.fill("SELECT count(*), sum(x.n), sum(y.n) FROM (SELECT * FROM big WHERE n < {most}) x {join} "
                         "(SELECT * FROM big WHERE n > {least}) y ON x.{name} = y.{name};", most=self.pick([200, 900]),
                         join=self.pick(["JOIN", "LEFT JOIN", "FULL JOIN"]), least=self.pick([700, 2500]), name=self.pick("ktd"))

    def many_in_windows(self):
        """Of more rows than are handed to the evaluator at once."""
        call = self.pick(["count(k)", "count(d)", "count(t)", "opened(sum(k){})", "opened(avg(k){})", "opened(max(k){})",
                          "opened(sum(d){})", "opened(avg(d){})", "opened(min(t){})"])
        frame = self.pick(["", "ROWS BETWEEN 200 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 150 FOLLOWING",
                           "GROUPS 40 PRECEDING", "RANGE BETWEEN 140 PRECEDING AND 3 PRECEDING",
                           "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW"])
        over = f" OVER (ORDER BY n {frame})"
        made = call.format(over) if "{}" in call else call + over
        return f"SELECT n, {made} FROM big WHERE n < {self.pick([140, 300])};"

    def many_by_index(self):
        """Of indexes whose first columns are not asked for, among others."""
        return self.fill("SELECT n FROM big WHERE k = {int4};", "SELECT n FROM big WHERE k IN ({many}) AND d > {numeric};",
                         "SELECT n FROM big WHERE d IN ({numeric}, {numeric}) AND k BETWEEN {int4} AND {int4};",
                         "SELECT n FROM big WHERE k IN ({many}) ORDER BY d, k, n;",
                         "SELECT n FROM big WHERE (d, k) > ({numeric}, {int4}) ORDER BY d, k, n LIMIT 20;",
                         "SELECT n FROM big WHERE (d, k) < ({numeric}, {int4}) AND k IS NOT NULL "
                         "ORDER BY d DESC, k DESC, n DESC LIMIT 20;",
                         "SELECT x.n, y.n FROM big x JOIN big y ON x.k = y.k AND x.d = y.d WHERE x.n < 60;",
                         "SELECT opened(min(k)), opened(max(k)), opened(min(t)), opened(max(t)) FROM big WHERE n > 17;",
                         "SELECT opened(max(k)), opened(min(t)) FROM big;",
                         "SELECT n FROM big WHERE k IS NULL AND d < {numeric};",
                         "SELECT count(*) FROM big WHERE t LIKE «text a%» AND d >= {numeric};",
                         "SELECT n FROM big WHERE t >= {text} AND k < {int4} ORDER BY t, k, n LIMIT 9;",
                         many=lambda: self.values("int4"))

    def joined(self):
        return self.fill_of(self.pick(TYPES), "SELECT x.n, y.n FROM a x FULL JOIN b y ON x.{one} = y.{other};",
                            "SELECT x.n, y.n FROM a x {join} b y ON x.{one} = y.{other};",
                            "SELECT x.n, y.n FROM a x {join} b y ON x.{one} = y.{other} AND {extra};",
                            join=self.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"]), extra=self.condition(self.pick(["x.", "y."])))

    def three_joined(self):
        one, other = (columns(self.pick(TYPES))[0] for _ in range(2))
        return self.fill("SELECT count(*), sum(x.n), sum(y.n), sum(z.n) FROM b x {join} a y ON x.{one} = y.{one} "
                         "{join} b z ON y.{other} = z.{other} AND y.{one} = z.{one};",
                         join=lambda: self.pick(["JOIN", "LEFT JOIN"]), one=one, other=other)

    def joined_by_order(self):
        return self.fill_of(self.pick(TYPES),
                            "SELECT count(*), sum(x.n * y.n) FROM a x JOIN b y ON x.{one} < y.{one} AND x.n % 5 = y.n % 5;",
                            "SELECT count(*), sum(x.n * y.n) FROM a x JOIN b y ON x.{one} >= y.{one} AND x.n % 5 = y.n % 5;")

    def with_subquery(self):
        where = self.condition("y.")
        inner = "SELECT {other} FROM b y WHERE {where}"
        conditions = [f"{{one}} IN ({inner})", f"{{one}} NOT IN ({inner})", f"{{one}} > ALL ({inner})",
                      f"{{one}} <= ANY ({inner})",
                      "EXISTS (SELECT FROM b y WHERE y.{other} = x.{one} AND {where})",
                      "NOT EXISTS (SELECT FROM b y WHERE y.{other} = x.{one})",
                      "({one}, n % 3) IN (SELECT {other}, n % 3 FROM b)",
                      "x.{one} = (SELECT {other} FROM b y ORDER BY n LIMIT 1)"]
        return self.fill_of(self.pick(TYPES), *(f"SELECT n FROM a x WHERE {one};" for one in conditions), where=where)

    def lateral(self):
        return self.fill_of(self.pick(TYPES), "SELECT x.n, l.m, l.c FROM a x CROSS JOIN LATERAL "
                            "(SELECT max(y.n) AS m, count(*) AS c FROM b y WHERE y.{other} = x.{one}) l;",
                            "SELECT x.n, l.n FROM a x CROSS JOIN LATERAL "
                            "(SELECT n FROM b y WHERE y.{other} <= x.{one} ORDER BY y.{other} DESC, n LIMIT 2) l;")

    def grouped(self):
        keys = ", ".join(self.column() for _ in range(self.random.randint(1, 2)))
        keys = self.fill("{k}", "{k}", "ROLLUP ({k})", "CUBE ({k})", "GROUPING SETS (({k}), ())",
                         "DISTINCT ROLLUP ({k}), {column}", k=keys)
        having = self.fill("", " HAVING count(*) > 1", " HAVING max(i1) > {int4}")
        return self.fill("SELECT array_agg(n ORDER BY n), {aggregate}, {aggregate} FROM a GROUP BY {keys}{having};",
                         keys=keys, having=having)

    def aggregated(self):
        return self.fill("SELECT {aggregate}, {aggregate}, {aggregate} FROM {table};",
                         "SELECT {aggregate}, {aggregate}, {aggregate} FROM {table} WHERE {conditions};")

    def aggregated_in_order(self):
        """By aggregates that sort, or compare whole rows."""
        one, other = self.pick(CANONICAL), self.pick(CANONICAL)
        return self.fill_of(one, "SELECT count(DISTINCT ({column}, {column})) FROM a;",
                            "SELECT opened(mode() WITHIN GROUP (ORDER BY {one})) IS NULL, count(*) FROM a GROUP BY n % 3;",
                            "SELECT opened(percentile_disc({fraction}) WITHIN GROUP (ORDER BY {one})) FROM a;",
                            "SELECT n % 2, rank({value}) WITHIN GROUP (ORDER BY {one}), "
                            "dense_rank({value}) WITHIN GROUP (ORDER BY {one} DESC) FROM a GROUP BY 1;",
                            "SELECT cume_dist({value}, {second}) WITHIN GROUP (ORDER BY {one}, {column_of_second} DESC) FROM a;",
                            "SELECT count(DISTINCT {one}), count(DISTINCT {column}) FROM a GROUP BY {column};",
                            "SELECT cardinality(array_agg(DISTINCT {one})), cardinality(array_agg(DISTINCT {column})) FROM a;",
                            fraction=self.pick(["0", "0.3", "0.5", "1"]), second=self.constant(other),
                            column_of_second=self.column(other))

    def distinct(self):
        keys = [self.column() for _ in range(self.random.randint(1, 3))]
        return self.fill("SELECT count(*) FROM (SELECT DISTINCT {keys} FROM a) x;",
                         "SELECT DISTINCT ON ({keys}) n FROM a ORDER BY {keys}, n;",
                         "SELECT DISTINCT ON ({keys}) n FROM a ORDER BY {downwards} DESC, n DESC;",
                         keys=", ".join(keys), downwards=" DESC, ".join(keys))

    def combined(self):
        one, other = (columns(self.pick(TYPES))[0] for _ in range(2))
        return self.fill("SELECT count(*) FROM (SELECT {one}, {other} FROM a {word} SELECT {one}, {other} FROM b) x;",
                         one=one, other=other,
                         word=self.pick(["UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL", "UNION ALL"]))

    def windowed(self):
        by, order, exact = self.column(), self.order(), self.column(self.pick(EXACT))
        frame = self.pick(["", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                           "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                           "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                           "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING EXCLUDE TIES",
                           "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
                           "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP"])
        calls = ["rank() OVER {w}, dense_rank() OVER {w}, percent_rank() OVER {w}",
                 "cume_dist() OVER {w}, count(*) OVER {framed}",
                 "opened(sum({exact}) OVER {framed}), count({exact}) OVER {framed}",
                 "opened(max({integer}) OVER (ORDER BY n ROWS 3 PRECEDING))",
                 "lag(n, 2) OVER (PARTITION BY {by} ORDER BY {up}, n), ntile(4) OVER (ORDER BY {up}, n)",
                 "opened(first_value({canonical}) OVER (PARTITION BY {by} ORDER BY n)), "
                 "opened(lead({canonical}) OVER (ORDER BY {up}, n))",
                 "opened(avg({exact}) OVER (PARTITION BY {by})), opened(sum({exact}) OVER (PARTITION BY {by} ORDER BY n))"]
        return self.fill(*(f"SELECT n, {one} FROM a;" for one in calls), by=by, up=order,
                         w=f"(PARTITION BY {by} ORDER BY {order})",
                         framed=f"(PARTITION BY n % 3 ORDER BY {order} {frame})", exact=exact, integer=self.column("int4"))

    def first_of_each(self):
        return self.fill("SELECT n, r FROM (SELECT n, rank() OVER (PARTITION BY {column} ORDER BY {order}) AS r "
                         "FROM a) x WHERE r <= {most};",
                         most=self.pick([1, 2, 5]))

    def recursive(self):
        return self.fill_of(self.pick(["int4", "text", "uuid", "date", "bool"]),
                            "WITH RECURSIVE r(k) AS (SELECT {one} FROM b WHERE n < 3 UNION "
                            "SELECT y.{one} FROM r JOIN a x ON x.{one} = r.k "
                            "JOIN a y ON y.n = x.n + 1) SELECT count(*), count(k) FROM r;")

    def mixed(self):
        """Of two types."""
        one, other = self.random.sample(self.pick(MIXED), 2)
        return self.fill_of(one, "SELECT x.n, y.n FROM a x JOIN b y ON x.{one} = y.{second};",
                            "SELECT n FROM a WHERE {one} {comparison} {value_of_second};",
                            "SELECT n FROM a WHERE {one} IN (SELECT y.{second} FROM b y WHERE y.n < 30);",
                            "SELECT n FROM a WHERE {one} IN ({value}, {value_of_second});",
                            "SELECT count(*) FROM (SELECT {one} FROM a UNION SELECT {second} FROM b) x;",
                            "SELECT n FROM a WHERE greatest({one}, {second}) IS NOT DISTINCT FROM {one};",
                            second=columns(other)[0], value_of_second=lambda: self.constant(other))

    def computed(self):
        """By what is computed; the constants of both of an expression's places are the same."""
        made = self.fill("i1 % {int4}", "l1 + i1", "i1 - i2", "d1 * d1", "abs(f1)", "lower(t1)", "t1 || t2",
                         "upper(t1)", "length(t1)",
                         "initcap(t1)", "left(t1, 2)", "right(t1, -1)", "trim(t1)", "trim(both 'ab' FROM t1)", "replace(t1, {text}, {text})",
                         "split_part(t1, 'b', 1)", "position({text} IN t1)", "strpos(t1, {text})",
                         "substring(t1 FROM 1 FOR 2)", "a1::‹timestamp›", "s1::‹date›", "z1 + interval '1 month'", "i1 + {int4}",
                         "extract(year FROM s1)", "b1::‹int4›", "d1::‹text›", "f1::‹text›",
                         "i1::‹float8›", "i1::‹text›", "a1::‹text›", "y1 || y2", "f1 / f2", "- r1")
        return self.fill("SELECT array_agg(n ORDER BY n) FROM a WHERE n < 100 GROUP BY {made};",
                         "SELECT n FROM a ORDER BY {made}, n;",
                         "SELECT count(DISTINCT {made}) FROM a;", "SELECT n, rank() OVER (ORDER BY {made} DESC) FROM a;",
                         "SELECT n, opened({made}) IS NULL FROM a WHERE n < 9;",
                         "CREATE INDEX made ON b (({made}));\nSET LOCAL enable_seqscan = off;\n"
                         "SELECT n FROM b WHERE {made} = (SELECT {made} FROM b WHERE n = 7);", made=made)

    def cursor(self):
        """SCROLL, as it depends on a plan whether another cursor goes backwards."""
        moves = ["NEXT", "PRIOR", "LAST", "FIRST", "FORWARD 5", "BACKWARD 3", "ABSOLUTE 7", "RELATIVE 2"]
        script = "DECLARE q SCROLL CURSOR {hold}FOR SELECT n, opened({canonical}) FROM a WHERE {condition} ORDER BY {order}, n;\n"
        script += "{fetch} {move} FROM q;\n" * 6 + "CLOSE q;"
        return Ordered(self.fill(script, hold=self.pick(["", "WITH HOLD "]), move=lambda: self.pick(moves),
                                 fetch=lambda: self.pick(["FETCH", "FETCH", "MOVE"])))

    def prepared(self):
        runs = "EXECUTE q ({value});\nEXECUTE q ({value});\nEXECUTE q (NULL);\n" + "EXECUTE q ({value});\n" * 5
        conditions = ["{one} = $1", "{one} > $1", "{one} BETWEEN $1 AND {value}", "{one} IN ($1, {value})",
                      "{one} IS DISTINCT FROM $1",
                      "$1 IS NULL OR {one} <= $1"]
        forms = [f"PREPARE q({{type}}) AS SELECT count(*), sum(n) FROM a WHERE {one};\n{runs}DEALLOCATE q;" for one in conditions]
        return Ordered(self.fill_of(self.pick(TYPES), *forms))
