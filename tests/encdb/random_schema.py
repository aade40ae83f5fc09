"""The schema of random queries: tables, indexes, partitions and other objects (imported by test_random.py only).

Rows are made once, plain, in the schema "rows"; the schemas of both sides take them from there, in the order of n. Wide
rows of few lie in a and b, narrow rows of many in big, and what can be made of columns in the objects after them.
"""

from random_parts import BIG, LITERALS, TABLES, Parts
from statements import TYPES, columns, encrypted, quoted

COLUMNS = [(ty, name) for ty in TYPES for name in columns(ty)]
OWN_COLLATIONS = {"t1": ' COLLATE "C"', "t2": ' COLLATE "en_US.utf8"'}
INDEXES = 30

BIG_ROWS = f"""
CREATE TABLE rows.big AS SELECT g AS n, CASE WHEN g % 11 > 0 THEN g * 7919 % 1009 END::int4 AS k,
    CASE WHEN g % 13 > 0 THEN md5((g % 700)::text) || repeat('\u00e9', g % 5) END AS t, ((g * 31 % 97) / 7.0)::numeric AS d
FROM generate_series(1, {BIG}) g;
"""
BIG_TABLE = """
CREATE TABLE big (n int PRIMARY KEY, k ‹int4›, t ‹text› COLLATE "en_US.utf8", d ‹numeric›);
ALTER TABLE big SET (parallel_workers = 2);
INSERT INTO big SELECT n, {int4}(k), {text}(t), {numeric}(d) FROM rows.big ORDER BY n;
CREATE INDEX ON big (d, k); CREATE INDEX ON big (t, k); CREATE INDEX ON big (k);
"""
PARTITIONS = """
CREATE TABLE ph (n int, k ‹int4›, t ‹text›) PARTITION BY HASH (k, t);
CREATE TABLE ph0 PARTITION OF ph FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE ph1 PARTITION OF ph FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE ph2 PARTITION OF ph FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE TABLE pr (n int, k ‹int4›, t ‹text›) PARTITION BY RANGE (k);
CREATE TABLE pr0 PARTITION OF pr FOR VALUES FROM (MINVALUE) TO («int4 -1»);
CREATE TABLE pr1 PARTITION OF pr FOR VALUES FROM («int4 -1») TO («int4 2»);
CREATE TABLE pr2 PARTITION OF pr FOR VALUES FROM («int4 2») TO («int4 256»);
CREATE TABLE pr3 PARTITION OF pr DEFAULT;
CREATE TABLE pl (n int, k ‹int4›, t ‹text›) PARTITION BY LIST (t);
CREATE TABLE pl0 PARTITION OF pl FOR VALUES IN («text », «text a», NULL);
CREATE TABLE pl1 PARTITION OF pl FOR VALUES IN («text a », «text A», «text i»);
CREATE TABLE pl2 PARTITION OF pl FOR VALUES IN («text B»);
CREATE TABLE pl3 PARTITION OF pl DEFAULT;
CREATE TABLE pd (n int, d ‹date›, k ‹int4›) PARTITION BY RANGE (d, k);
CREATE TABLE pd0 PARTITION OF pd FOR VALUES FROM (MINVALUE, MINVALUE) TO («date 0001-01-01 BC», «int4 2»);
CREATE TABLE pd1 PARTITION OF pd FOR VALUES FROM («date 0001-01-01 BC», «int4 2») TO («date 2000-01-01», «int4 256»);
CREATE TABLE pd2 PARTITION OF pd FOR VALUES FROM («date 2000-01-01», «int4 256») TO (MAXVALUE, MAXVALUE);
CREATE TABLE pd3 PARTITION OF pd DEFAULT;
INSERT INTO ph SELECT n, i1, t1 FROM a; INSERT INTO pr SELECT n, i1, t1 FROM a; INSERT INTO pl SELECT n, i1, t1 FROM a;
INSERT INTO pd SELECT n, a1, i1 FROM a;
CREATE INDEX ON pr (k); CREATE INDEX ON ph USING hash (k); CREATE INDEX ON pl (t, k);
"""
CONSTRAINTS = """
CREATE TABLE par (k ‹int4› PRIMARY KEY, t ‹text›, n int);
INSERT INTO par SELECT DISTINCT ON (i1) i1, t1, n FROM a WHERE i1 IS NOT NULL ORDER BY i1, n;
CREATE TABLE chi (n int, k ‹int4› REFERENCES par ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO chi SELECT n, i1 FROM a WHERE n % 3 = 0;
CREATE TABLE uni (n int, k ‹numeric› UNIQUE, t ‹text› COLLATE "C", UNIQUE (t, k), EXCLUDE USING hash (k WITH =));
INSERT INTO uni SELECT DISTINCT ON (d1) n, d1, t1 FROM a ORDER BY d1, n;
CREATE TABLE gen (n int, x ‹int8›, y ‹int8›, z ‹int8› GENERATED ALWAYS AS (x - y) STORED, CHECK (x >= y));
CREATE INDEX ON gen (z);
CREATE DOMAIN small AS ‹int4› CHECK (VALUE < «int4 256»);
"""
CONTAINERS = """
CREATE TYPE pair AS (k ‹int4›, t ‹text›);
CREATE TYPE span AS RANGE (subtype = ‹int4›);
CREATE TABLE held AS SELECT n, ARRAY[i1, i2] AS ar, ARRAY[t1, t2 COLLATE "C"] AS tr, ROW(i1, t1)::pair AS pa,
    CASE WHEN i1 <= i2 THEN span(i1, i2) END AS sp FROM a;
CREATE TABLE parent (n int, k ‹int8›); CREATE TABLE child (t ‹text›) INHERITS (parent);
INSERT INTO parent SELECT n, l1 FROM a WHERE n % 2 = 0; INSERT INTO child SELECT n, l1, t1 FROM a WHERE n % 2 = 1;
CREATE INDEX ON parent (k); CREATE INDEX ON child (k);
"""
PROGRAMS = """
CREATE VIEW v AS SELECT a.n, a.i1, a.t1, b.n AS m, b.d1 FROM a JOIN b ON a.i1 = b.i2;
CREATE MATERIALIZED VIEW mv AS SELECT i1 AS k, count(*) AS c, min(n) AS n FROM a GROUP BY i1;
CREATE UNIQUE INDEX ON mv (k);
CREATE TABLE log (n int, k ‹int4›, old ‹int4›);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    IF NEW.i1 IS DISTINCT FROM OLD.i1 THEN INSERT INTO log VALUES (NEW.n, NEW.i1, OLD.i1); END IF; RETURN NEW; END$$;
CREATE TRIGGER noted BEFORE UPDATE ON b FOR EACH ROW EXECUTE FUNCTION noted();
CREATE FUNCTION least_of(x ‹int4›, y ‹int4›) RETURNS ‹int4› LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN x < y THEN x ELSE y END';
CREATE FUNCTION between_of(x ‹int4›, y ‹int4›) RETURNS TABLE (n int, k ‹int4›) LANGUAGE sql STABLE AS
    'SELECT a.n, a.i1 FROM a WHERE a.i1 BETWEEN x AND y';
CREATE FUNCTION counted(x ‹text›) RETURNS bigint LANGUAGE plpgsql STABLE AS $$DECLARE r bigint; y ‹text› := x; BEGIN
    SELECT count(*) INTO r FROM a WHERE t1 = y; RETURN r; END$$;
"""


class Schema(Parts):
    """Chooses rows and indexes; `further` is a text for both sides."""

    def __init__(self, seed):
        super().__init__(seed)
        self.rows = "CREATE SCHEMA rows;\n" + "".join(map(self.table_of_rows, TABLES)) + BIG_ROWS
        self.further = PARTITIONS + CONSTRAINTS + CONTAINERS + PROGRAMS + "".join(self.index() for _ in range(INDEXES))

    def table_of_rows(self, table):
        """SQL of plain rows, some of whose values are NULL."""
        rows = []
        for n in range(TABLES[table]):
            values = [self.pick([*LITERALS[ty], *LITERALS[ty], None]) for ty, _ in COLUMNS]
            rows.append(f"({n}, " + ", ".join("NULL" if value is None else quoted(value) for value in values) + ")")
        named = ", ".join(f"{name} {ty}" for ty, name in COLUMNS)
        return f"CREATE TABLE rows.{table} (n int, {named});\nINSERT INTO rows.{table} VALUES {', '.join(rows)};\n"

    @staticmethod
    def tables(sealed):
        """SQL that makes one side's tables of the rows."""
        into = {ty: f"encdb.{encrypted(ty)}_encrypt" if sealed else "" for ty in TYPES}
        named = ", ".join(f"{name} ‹{ty}›" + OWN_COLLATIONS.get(name, "") for ty, name in COLUMNS)
        taken = ", ".join(f"{into[ty]}({name})" for ty, name in COLUMNS)
        made = [f"CREATE TABLE {table} (n int PRIMARY KEY, {named});\n"
                f"INSERT INTO {table} SELECT n, {taken} FROM rows.{table} ORDER BY n;\n" for table in TABLES]
        return "".join(made) + BIG_TABLE.format_map(into)

    def index(self):
        x, y, z = self.random.sample([name for _, name in COLUMNS], 3)
        where = self.pick(["", "", "", "", f" WHERE {self.condition()}"])
        return self.fill("CREATE INDEX ON {table} ({x}{direction}){where};\n",
                         "CREATE INDEX ON {table} ({x}{direction}, {y}){where};\n",
                         "CREATE INDEX ON {table} ({x}, {y}{direction}, n){where};\n",
                         "CREATE INDEX ON {table} ({x}) INCLUDE ({z}){where};\n",
                         "CREATE INDEX ON {table} (n, {x}{direction}){where};\n",
                         "CREATE INDEX ON {table} USING hash ({x}){where};\n",
                         "CREATE INDEX ON {table} (t1 {collation}{direction}){where};\n",
                         "CREATE INDEX ON {table} (lower(t1)){where};\n",
                         "CREATE INDEX ON {table} ((l1 IS NULL), i1){where};\n", x=x, y=y, z=z, where=where)
