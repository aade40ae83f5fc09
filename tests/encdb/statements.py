"""Random statements, over plain columns and over encrypted ones (imported by test_differential.py only).

Invariants: the same seed gives the same statements. Constants are psql's variables, so that the server meets a literal in
both forms. WHERE and ON raise no errors: what is computed there could be computed in another order.
"""

import random

# Type: name of its encrypted one, columns, literals.
TYPES = {
    "int4": ("int4", "i1 i2", ["0", "1", "-1", "2", "7", "2147483647", "-2147483648", "46341"]),
    "int8": ("int8", "l1 l2", ["0", "1", "-3", "9223372036854775807", "-9223372036854775808", "4294967296"]),
    "float4": ("float4", "r1 r2", ["0", "-0", "1.5", "NaN", "Infinity", "3.4e38", "1e-45"]),
    "float8": ("float8", "f1 f2", ["0", "-0", "0.1", "-2.5", "NaN", "-Infinity", "1e308", "5e-324"]),
    "numeric": ("decimal", "d1 d2", ["0", "0.00", "1.50", "-0.333333", "NaN", "1e30", "12345678901234567890.123"]),
    "bool": ("bool", "b1 b2", ["t", "f"]),
    "date": ("date", "a1 a2", ["2000-01-01", "2024-02-29", "1969-12-31", "infinity", "4714-11-24 BC"]),
    "timestamp": ("timestamp", "s1 s2", ["2000-01-01 00:00:00", "2024-02-29 12:34:56.789", "-infinity", "1969-12-31 23:59:59.999999"]),
    "timestamptz": ("timestamptz", "z1 z2", ["2000-01-01 00:00:00+00", "2024-03-10 09:59:59.5+00", "infinity", "1969-12-31 23:59:59+00"]),
    "interval": ("interval", "v1 v2", ["0", "1 mon", "30 days", "-1 mons +30 days 00:00:00.5", "23:59:59.999999", "-400 years", "2147483647 days"]),
    "uuid": ("uuid", "u1 u2", ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "bytea": ("bytea", "y1 y2", ["\\x", "\\x00", "\\x00ff", "\\xff"]),
    "text": ("text", "t1 t2", ["", "a", "ab", "B", "%", "a_c", "\u00e4\u00f6", "\u20ac uro", "1e3", "12", "x" * 600]),
}
NUMBERS = ["int4", "int8", "float4", "float8", "numeric"]
OPERATORS = {"int4": "+-*/%", "int8": "+-*/%", "float4": "+-*/", "float8": "+-*/", "numeric": "+-*/%"}
CASTS = [("int4", "int8"), ("int4", "numeric"), ("int8", "int4"), ("int8", "float8"), ("float8", "int4"), ("float8", "float4"),
         ("float8", "numeric"), ("numeric", "int4"), ("numeric", "int8"), ("numeric", "float8"), ("int4", "float8"),
         ("float4", "int8"), ("int4", "bool"), ("bool", "int4"), ("date", "timestamp"), ("timestamp", "date"), ("int4", "text"),
         ("timestamptz", "timestamp"), ("timestamp", "timestamptz"), ("timestamptz", "date"), ("date", "timestamptz"), ("timestamptz", "text"),
         ("numeric", "text"), ("float8", "text"), ("bool", "text"), ("date", "text"), ("timestamp", "text"), ("interval", "text"), ("text", "interval"), ("text", "int4"),
         ("text", "int8"), ("text", "float8"), ("text", "numeric"), ("text", "date")]
SUMS = {"int4": "int8", "int8": "numeric", "float4": "float4", "float8": "float8", "numeric": "numeric"}
WITHOUT_EXTREMES = {"bool", "uuid", "bytea"}
PATTERNS = ["%", "#%", "a#_c", "a%", "%b", "_", "a_c", "%\u00f6%", "A%", "x%x", "\\%"]
REGEXES = ["a", "^a", "b$", "a.c", "^.$", "[a-c]+", "^[^a-z]*$", "\\mx", "(a|\u00f6)", "(?i)A", "[[:alpha:]]{2}", "\\d", "a(", "***=a.c", ""]
SIMILARS = ["a%", "%(b|c)", "_", "[a-c]*", "%\\%%", "a|%\u00f6%", "[", ""]
ESCAPES = ["", " ESCAPE '#'", " ESCAPE '\\'", " ESCAPE ''"]
# What is looked for in texts, cut off them, or put in its place.
PARTS = ["", "a", "b", "ab", "x", " ", "_c", "\u00f6", "\u20ac", "Q,)%\"$'"]
INTERVALS = ["1 day", "-1 mon", "13 mons 1 day 00:00:01", "-400 years", "300000 years", "23:59:59.999999"]
FIELDS = ["year", "month", "day", "hour", "minute", "second", "epoch", "dow", "doy", "week", "quarter", "century"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "CET", "Etc/GMT+5"]
PERIODS = ["microseconds", "milliseconds", "second", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium"]
ROWS = 40


def encrypted(ty):
    """The encrypted type beside a plain one."""
    return "enc_" + TYPES[ty][0]


def columns(ty):
    """The columns of a type; both tables call them so."""
    return TYPES[ty][1].split()


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Statements:
    """Makes pairs of one statement: for the table p, and for the table e."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.constants = {}

    def tables(self):
        """SQL that makes both tables with the same rows, one value in five NULL."""
        names = [(ty, name) for ty in TYPES for name in columns(ty)]
        rows = []
        for n in range(ROWS):
            values = [self.random.choice([*TYPES[ty][2], *TYPES[ty][2], "NULL"]) for ty, _ in names]
            rows.append(f"({n}, " + ", ".join("NULL" if value == "NULL" else quoted(value) for value in values) + ")")
        plain = ", ".join(f"{name} {ty}" + (' COLLATE "C"' if ty == "text" else "") for ty, name in names)
        sealed = ", ".join(f"{name} {encrypted(ty)}" + (' COLLATE "C"' if ty == "text" else "") for ty, name in names)
        cells = ", ".join(f"encdb.{encrypted(ty)}_encrypt({name})" for ty, name in names)
        return (f"CREATE TABLE p (n int4 PRIMARY KEY, {plain});\nCREATE TABLE e (n int4 PRIMARY KEY, {sealed});\n"
                f"INSERT INTO p VALUES {', '.join(rows)};\nINSERT INTO e SELECT n, {cells} FROM p;\n")

    def indexes(self):
        """SQL that makes indexes of both kinds on the encrypted columns, so that plans differ from those of the plain table."""
        return "".join(f"CREATE INDEX ON e ({columns(ty)[0]}); CREATE INDEX ON e USING hash ({columns(ty)[1]});\n" for ty in TYPES)

    def prologue(self):
        """SQL that makes the constants that were used."""
        return "".join(f"SELECT encdb.{encrypted(ty)}_encrypt({quoted(literal)}::{ty}) AS {name} \\gset\n"
                       for (ty, literal), name in self.constants.items())

    def pick(self, things):
        return self.random.choice(list(things))

    def constant(self, ty, literal=None):
        literal = self.pick(TYPES[ty][2]) if literal is None else literal
        name = self.constants.setdefault((ty, literal), f"c{len(self.constants)}")
        return f"{quoted(literal)}::{ty}", f":'{name}'::{encrypted(ty)}"

    def column(self, ty):
        name = self.pick(columns(ty))
        return name, name

    def leaf(self, ty):
        return self.column(ty) if self.random.random() < 0.7 else self.constant(ty)

    def expression(self, ty, depth):
        """An expression of a type, plain and encrypted."""
        ways = [lambda: self.leaf(ty)]
        if depth:
            if ty in OPERATORS:
                ways += [lambda: self.binary(ty, depth)] * 3 + [lambda: self.wrapped(ty, depth, "(- {})", "abs({})")]
            if ty in ("text", "bytea"):
                ways += [lambda: self.string(ty, depth)] * 3
            if ty == "text":
                ways += [lambda: self.searched(depth)] * 3
            if ty in ("timestamp", "timestamptz"):
                ways += [lambda: self.shifted(ty, depth)] * 2 + [lambda: self.period(ty, depth), lambda: self.zoned(ty, depth)]
            if ty == "interval":
                ways += [lambda: self.span(depth)] * 4
            if ty in ("numeric", "float8"):
                ways += [lambda: self.rounded(ty, depth)] * 2
            ways += [lambda: self.cast(ty, depth)]
            if ty == "numeric":
                ways += [lambda: self.field(depth)]
            if ty == "int4":
                ways += [lambda: self.wrapped(self.pick(["text", "bytea"]), depth, "length({})"), lambda: self.position(depth)]
        return self.pick(ways)()

    def wrapped(self, ty, depth, *forms):
        form = self.pick(forms)
        return tuple(form.format(one) for one in self.expression(ty, depth - 1))

    def binary(self, ty, depth):
        operator = self.pick(OPERATORS[ty])
        pair = zip(self.expression(ty, depth - 1), self.expression(ty, depth - 1))
        return tuple(f"({left} {operator} {right})" for left, right in pair)

    def shifted(self, ty, depth):
        forms = ["({{}} + interval '{}')", "(interval '{}' + {{}})", "({{}} - interval '{}')"]
        source = self.pick([ty, "date"]) if ty == "timestamp" else ty
        if self.random.random() < 0.3:
            form, parts = self.pick(["({0} + {1})", "({1} + {0})", "({0} - {1})"]), [self.expression(source, depth - 1), self.expression("interval", depth - 1)]
            return tuple(form.format(*side) for side in zip(*parts))
        return self.wrapped(source, depth, *(form.format(self.pick(INTERVALS)) for form in forms))

    def span(self, depth):
        """An interval between times, or one that is made of others. PostgreSQL's of infinite times depends on its version."""
        if self.random.random() < 0.5:
            ty, form = self.pick(["timestamp", "timestamptz"]), self.pick(["({} - {})", "({} - {})", "age({}, {})"])
            finite = [literal for literal in TYPES[ty][2] if "infinity" not in literal]
            form = form.format(self.pick(["{}", "({} + {})"]), "{}")
            parts = [self.constant(ty, self.pick(finite)), self.column("interval"), self.constant(ty, self.pick(finite))]
            parts = parts if form.count("{}") == 3 else parts[::2]
        else:
            form, *types = self.pick([("({} + {})", "interval", "interval"), ("({} - {})", "interval", "interval"), ("(- {})", "interval"),
                                      ("({} * {})", "interval", "float8"), ("({} * {})", "float8", "interval"), ("({} / {})", "interval", "float8")])
            parts = [self.expression(ty, depth - 1) for ty in types]
        plain, sealed = (form.format(*side) for side in zip(*parts))
        return plain, f"encdb.{sealed}" if form.startswith("age") else sealed

    def period(self, ty, depth):
        """date_trunc, that of a date too, which gives a timestamptz."""
        source = self.pick([ty, "date"]) if ty == "timestamptz" else ty
        return self.wrapped(source, depth, f"date_trunc('{self.pick(PERIODS)}', {{}})")

    def zoned(self, ty, depth):
        """AT TIME ZONE, by names and by offsets."""
        zone, (plain, sealed) = self.pick(ZONES), self.expression("timestamp" if ty == "timestamptz" else "timestamptz", depth - 1)
        return f"({plain} AT TIME ZONE '{zone}')", f"encdb.timezone('{zone}', {sealed})"

    def rounded(self, ty, depth):
        if ty == "numeric":
            count = self.pick([0, 1, 2, 5, -1, -3])
            return self.wrapped(ty, depth, f"round({{}}, {count})", f"trunc({{}}, {count})", "round({})", "trunc({})", "ceil({})", "floor({})")
        if self.random.random() < 0.3:
            return self.wrapped("timestamp", depth, f"date_part('{self.pick(FIELDS)}', {{}})")
        source = self.pick(["int4", "int8", "float4", "float8"])
        return self.wrapped(source, depth, "round({})", "trunc({})", "ceil({})", "ceiling({})", "floor({})")

    def string(self, ty, depth):
        start, length = self.random.randint(-2, 5), self.random.randint(-1, 6)
        forms = ["({} || {})", f"substring({{}} FROM {start} FOR {length})", f"substr({{}}, {start})"]
        of_text = ["lower({})", "upper({})", "initcap({})", "reverse({})", "trim({})", "ltrim({})", f"left({{}}, {start})",
                   f"right({{}}, {start})", f"repeat({{}}, {min(start, 2)})", f"right({{}}, {self.pick([-2147483648, 2147483647])})",
                   f"lpad({{}}, {start})", f"rpad({{}}, {9 * start}, {quoted(self.pick(PARTS))})"]
        if ty == "text" and self.random.random() < 0.15:
            return self.concatenated(depth)
        form = self.pick(forms + of_text * (ty == "text"))
        parts = [self.expression(ty, depth - 1) for _ in range(form.count("{}"))]
        return tuple(form.format(*side) for side in zip(*parts))

    def concatenated(self, depth):
        """Texts of which some may be NULL, but not all."""
        form = self.pick(["concat({0}, {1}, {2})", "concat({1}, {0})", "concat_ws({1}, {0}, {2})", "concat_ws({0}, {1}, {2}, {1})", "concat_ws({1}, {2})"])
        plain, sealed = (form.format(*side) for side in zip(self.expression("text", depth - 1), self.part(), self.expression("text", depth - 1)))
        return plain, f"encdb.{sealed}"

    def part(self):
        """A short text."""
        return self.constant("text", self.pick(PARTS))

    def searched(self, depth):
        """A function of text with others, which are cells, or all plain."""
        field = self.pick([1, 2, 3, -1, -2, 0, 2147483647, -2147483648])
        form = self.pick(["btrim({}, {})", "trim(leading {1} from {0})", "rtrim({}, {})", "replace({}, {}, {})",
                          f"split_part({{}}, {{}}, {field})"])
        others = [self.part(), self.part()]
        if self.random.random() < 0.5:
            others = [(quoted(one), quoted(one)) for one in self.random.choices(PARTS, k=2)]
        return tuple(form.format(*side) for side in zip(self.expression("text", depth - 1), *others))

    def position(self, depth):
        form = self.pick(["position({1} IN {0})", "strpos({}, {})"])
        other = self.pick([self.part, lambda: self.expression("text", depth - 1)])()
        return tuple(form.format(*side) for side in zip(self.expression("text", depth - 1), other))

    def cast(self, ty, depth):
        sources = [source for source, target in CASTS if target == ty]
        if not sources:
            return self.leaf(ty)
        plain, sealed = self.expression(self.pick(sources), depth - 1)
        return f"({plain})::{ty}", f"({sealed})::{encrypted(ty)}"

    def field(self, depth):
        form = f"extract({self.pick(FIELDS)} FROM {{}})"
        ty = self.pick(["timestamp", "interval", "date"])
        fields = FIELDS if ty != "date" else [field for field in FIELDS if field not in ("hour", "minute", "second")]
        form = f"extract({self.pick(fields)} FROM {{}})"
        return tuple(form.format(one) for one in self.expression(ty, depth - 1))

    def condition(self, depth=2):
        """A condition that raises no error."""
        if depth and self.random.random() < 0.4:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            word = self.pick(["AND", "OR"])
            return tuple(f"({one} {word} {other})" for one, other in zip(left, right))
        ty = self.pick(TYPES)
        kind = self.pick(["compare", "compare", "compare", "null", "between", "in", "like", "starts", "regex", "not"])
        if kind == "not":
            return tuple(f"NOT {one}" for one in self.condition(0))
        if kind == "like":
            word, escape = self.pick(["LIKE", "NOT LIKE", "ILIKE"]), self.pick(ESCAPES)
            (left, cell), (pattern, sealed) = self.column("text"), self.constant("text", self.pick(PATTERNS))
            return f"({left} {word} {pattern}{escape})", f"({cell} {word} {sealed}{escape})"
        if kind == "regex":
            return self.regex(self.pick(REGEXES[:-3]), self.pick(SIMILARS[:-2]))
        if kind == "starts":
            return tuple(f"starts_with({text}, {part})" for text, part in zip(self.column("text"), self.part()))
        form = {"compare": f"({{}} {self.pick(['=', '<>', '<', '<=', '>', '>='])} {{}})", "null": "({} IS NOT NULL)",
                "between": "({} BETWEEN {} AND {})", "in": "({} IN ({}, {}, {}))"}[kind]
        parts = [self.column(ty), *(self.leaf(ty) for _ in range(form.count("{}") - 1))]
        return tuple(form.format(*side) for side in zip(*parts))

    def regex(self, regex, similar):
        """A regular expression, or a pattern of SIMILAR TO."""
        word, pattern = self.pick([("~", regex), ("~*", regex), ("!~", regex), ("!~*", regex), ("SIMILAR TO", similar), ("NOT SIMILAR TO", similar)])
        escape = self.pick(ESCAPES) if "SIMILAR" in word else ""
        (left, cell), (plain, sealed) = self.column("text"), self.constant("text", pattern)
        return f"({left} {word} {plain}{escape})", f"({cell} {word} {sealed}{escape})"

    def statement(self):
        """A statement, for p and for e."""
        kinds = [self.row] * 6 + [self.filtered] * 2 + [self.matched, self.grouped, self.whole, self.ordered, self.distinct, self.joined, self.windowed,
                                                        self.combined, self.updated, self.among]
        return self.pick(kinds)()

    def row(self):
        ty = self.pick(TYPES)
        plain, sealed = self.expression(ty, 3)
        n = self.random.randrange(ROWS)
        return f"SELECT {plain} FROM p WHERE n = {n};", f"SELECT encdb.decrypt({sealed}) FROM e WHERE n = {n};"

    def filtered(self):
        plain, sealed = self.condition()
        return f"SELECT n FROM p WHERE {plain} ORDER BY n;", f"SELECT n FROM e WHERE {sealed} ORDER BY n;"

    def matched(self):
        """A pattern that may be none: an error wherever it is compared."""
        plain, sealed = self.regex(self.pick(REGEXES), self.pick(SIMILARS))
        return f"SELECT n, {plain} FROM p ORDER BY n;", f"SELECT n, {sealed} FROM e ORDER BY n;"

    def aggregates(self, exact):
        """Sums of floats depend on the order of rows, which plans of groups do not share, and so does the least of 0 and -0, or of
        0 and 0.00."""
        numbers = [ty for ty in NUMBERS if not (exact and ty.startswith("float"))]
        choices = [(name, ty) for name in ("sum", "avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp") for ty in numbers]
        if self.random.random() < 0.1:
            (one, cell), (part, sealed), order = self.column("text"), self.part(), self.pick(["n", "n DESC"])
            return f"string_agg({one}, {part} ORDER BY {order})", f"encdb.decrypt(string_agg({cell}, {sealed} ORDER BY {order}))"
        # The order of rows decides whether the sum of some of them is out of range.
        choices += [(name, "interval") for name in ("sum", "avg") if not exact]
        choices += [(name, "bool") for name in ("bool_and", "bool_or", "every")]
        extremes = [ty for ty in TYPES if ty not in WITHOUT_EXTREMES and not (exact and ty in ("float4", "float8", "numeric", "interval"))]
        choices += [(name, ty) for name in ("min", "max") for ty in extremes]
        name, ty = self.pick(choices)
        column = self.pick(columns(ty))
        return f"{name}({column})", f"encdb.decrypt({name}({column}))"

    def grouped(self):
        key = self.pick(columns(self.pick(TYPES)))
        plain, sealed = self.aggregates(exact=True)
        having = f"GROUP BY {key} HAVING count(*) > 1 ORDER BY min(n);"
        first = f"(array_agg({key} ORDER BY n))[1]"  # of 0 and -0, which are one group
        return f"SELECT {first}, count(*), {plain} FROM p {having}", f"SELECT encdb.decrypt({first}), count(*), {sealed} FROM e {having}"

    def whole(self):
        """What depends on the order of rows gets them in one order: larger rows lie elsewhere in a table."""
        exact = self.random.random() < 0.5
        plain, sealed = self.aggregates(exact)
        rows = "{}" if exact else "(SELECT * FROM {} ORDER BY n) x"
        return f"SELECT {plain} FROM {rows.format('p')};", f"SET enable_indexscan = off;\nSELECT {sealed} FROM {rows.format('e')};"

    def ordered(self):
        ty = self.pick(TYPES)
        name, how = self.pick(columns(ty)), self.pick(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
        tail = f"ORDER BY {name}{how}, n LIMIT 15;"
        return f"SELECT n FROM p {tail}", f"SELECT n FROM e {tail}"

    def distinct(self):
        name = self.pick(columns(self.pick(TYPES)))
        return f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM p) x;", f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM e) x;"

    def joined(self):
        ty = self.pick(TYPES)
        one, other = columns(ty)
        how = self.pick(["hashjoin", "mergejoin", "nestloop"])
        off = " ".join(f"SET enable_{join} = {'on' if join == how else 'off'};" for join in ("hashjoin", "mergejoin", "nestloop"))
        kind = self.pick(["JOIN", "LEFT JOIN"] + ["FULL JOIN"] * (how != "nestloop"))
        plain = f"SELECT count(*), sum(a.n), sum(b.n) FROM p a {kind} p b ON a.{one} = b.{other};"
        return plain, f"{off} {plain.replace(' p ', ' e ')}"

    def windowed(self):
        by, order = self.pick(columns(self.pick(TYPES))), self.pick(columns(self.pick(TYPES)))
        plain = f"SELECT n, rank() OVER (PARTITION BY {by} ORDER BY {order}), lag(n) OVER (ORDER BY {order}, n) FROM p ORDER BY n;"
        return plain, plain.replace("FROM p", "FROM e")

    def combined(self):
        one, other = columns(self.pick(TYPES))
        word = self.pick(["UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL"])
        plain = f"SELECT count(*) FROM (SELECT {one} FROM p {word} SELECT {other} FROM p) x;"
        return plain, plain.replace("FROM p", "FROM e")

    def updated(self):
        ty = self.pick(["int4", "numeric", "text", "bytea"])
        name = self.pick(columns(ty))
        plain, sealed = self.string(ty, 1) if ty in ("text", "bytea") else self.binary(ty, 1)
        where, sealed_where = self.condition(1)
        form = "BEGIN;\nUPDATE {} SET {} = {} WHERE {};\n\\echo :SQLSTATE\nSELECT n, {} FROM {} ORDER BY n;".format
        return form("p", name, plain, where, name, "p"), form("e", name, sealed, sealed_where, f"encdb.decrypt({name})", "e")

    def among(self):
        one, other = columns(self.pick(TYPES))
        plain, sealed = self.condition(0)
        return (f"SELECT n FROM p WHERE {one} IN (SELECT {other} FROM p WHERE {plain}) ORDER BY n;",
                f"SELECT n FROM e WHERE {one} IN (SELECT {other} FROM e WHERE {sealed}) ORDER BY n;")
