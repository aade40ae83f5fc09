"""Values of all types, and the parts of random queries: conditions, orders, aggregates (imported by the random_*.py only).

Invariants: the same seed gives the same parts. Conditions raise no errors, as what is computed there could be computed in
another order. Rows are told by their plain number n, never by which of some equal values is shown: 0 and -0, 1.5 and 1.50
are equal, and which of them PostgreSQL shows depends on its plan.
"""

import itertools
import random

from statements import PATTERNS, REGEXES, SIMILARS, TYPES, WITHOUT_EXTREMES, columns
from twofold import constant

# Beside those of statements.py: the ends of ranges, values of many digits, text on which collations differ.
MORE_LITERALS = {
    "int4": ["100", "256"],
    "int8": ["7"],
    "float4": ["-1.5", "-Infinity"],
    "float8": ["Infinity", "-5e-324"],
    "numeric": ["1.5", "1.500000", "Infinity", "-Infinity", "1e-30", "-1e30", "9" * 1000, "9" * 999 + "8", "0." + "3" * 1000,
                "10000", "9999.9999", "-10000"],
    "bool": [],
    "date": ["-infinity", "5874897-12-31", "0001-01-01 BC"],
    "timestamp": ["infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["-infinity"],
    "interval": ["1 day", "24:00:00", "-30 days", "12 mons", "1 year", "00:00:00.000001", "-2147483648 days", "178956970 years 7 mons"],
    "uuid": ["ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"],
    "bytea": ["\\x0000", "\\xff00", "\\x" + "ab" * 40, "\\x" + "ab" * 41],
    "text": [" ", "a ", "a  ", "A", "aB", "b", "\u00c4\u00d6", "a\u0308", "I", "\u0131", "i", "\u0130", "\U0001f600", "\uffff",
             "stra\u00dfe", "STRASSE", "co-op", "coop", "x" * 599 + "y", "abcdefgh", "abcdefghi", "abcdefg"],
}
LITERALS = {ty: [*literals, *MORE_LITERALS[ty]] for ty, (_, _, literals) in TYPES.items()}
MORE_PATTERNS = ["%a", "a_", "%\u00f6", "\u00c4%", "x%y", "abc%h_", "%i%", "I%", "", "a\\_c", "%\U0001f600", "s%SSE"]
MORE_REGEXES = ["[[:upper:]]", "^[[:lower:]]+$", "\\w\\W", "[\u00c0-\u00ff]", "\u00c4", "^.\u00d6", "[[:punct:]]", "stra.e", "x{500,}y", "[^[:alnum:]]"]
# tests/suites/fetch-build.sh makes those locales.
COLLATIONS = ["C", "POSIX", "C.utf8", "en_US.utf8", "tr_TR.utf8", "sv_SE.utf8", "de_DE.utf8"]
# Equal values of these have equal texts.
CANONICAL = [ty for ty in TYPES if ty not in ("float4", "float8", "numeric", "interval")]
# Sums of these do not depend on the order of rows.
EXACT = ["int4", "int8", "numeric"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
# Types that are compared with one another.
NUMBERS, TIMES = ["int4", "int8", "float4", "float8", "numeric"], ["date", "timestamp", "timestamptz"]
MIXED = [*itertools.combinations(NUMBERS, 2), *itertools.combinations(TIMES, 2)]
TABLES = {"a": 150, "b": 60}
BIG = 3000


def type_of(column):
    return next(ty for ty in TYPES if column in columns(ty))


class Places:
    """What a form's {places} are filled with, drawn anew at each: a constant of a type, what is given, what a method makes."""

    def __init__(self, parts, given):
        self.parts, self.given = parts, given

    def __getitem__(self, name):
        if name in TYPES:
            return self.parts.constant(name)
        made = self.given[name] if name in self.given else getattr(self.parts, name)
        return made() if callable(made) else made


class Parts:
    """Draws parts of queries, as texts for both sides."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, things):
        return self.random.choice(list(things))

    def fill(self, *forms, **given):
        """One of these forms with its places filled."""
        return self.pick(forms).format_map(Places(self, given))

    def fill_of(self, ty, *forms, **given):
        """As fill(), of a type: {value} is a constant, {one} and {other} are columns that can be compared."""
        one, other = columns(ty)
        if ty == "text":  # whose columns have two collations
            other = one
        return self.fill(*forms, **{"value": lambda: self.constant(ty), "one": one, "other": other, "type": f"‹{ty}›", **given})

    def constant(self, ty):
        return constant(ty, self.pick(LITERALS[ty]))

    def column(self, ty=None, of=""):
        return of + self.pick(columns(ty or self.pick(TYPES)))

    def canonical(self):
        return self.column(self.pick(CANONICAL))

    def table(self):
        return self.pick(TABLES)

    def comparison(self):
        return self.pick(COMPARISONS)

    def containment(self):
        return self.pick(["@>", "<@", "&&"])

    def collation(self):
        return f'COLLATE "{self.pick(COLLATIONS)}"'

    def direction(self):
        return self.pick(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])

    def values(self, ty):
        """A list, long enough sometimes to be hashed."""
        return ", ".join(self.constant(ty) for _ in range(self.random.choice([2, 3, 12])))

    def compared(self, ty, of=""):
        """What a column of this type is compared with."""
        if ty == "text":
            return f"{self.column(ty, of)} {self.collation()}" if self.random.random() < 0.6 else self.constant(ty)
        return self.column(ty, of) if self.random.random() < 0.6 else self.constant(ty)

    def conditions(self, depth=2, of=""):
        """Conditions with AND and OR, to this depth."""
        if depth == 0 or self.random.random() < 0.6:
            return self.condition(of)
        return f"({self.conditions(depth - 1, of)} {self.pick(['AND', 'OR'])} {self.conditions(depth - 1, of)})"

    def condition(self, of=""):
        ty, other = self.random.sample(list(TYPES), 2)
        forms = self.pick([["{x} {comparison} {y}"], self.comparisons(), self.lists_and_rows(), ["{like}"]])
        second = self.constant(other) if other == "text" else self.compared(other, of)
        return self.fill_of(ty, *forms, x=self.column(ty, of), y=self.compared(ty, of), many=lambda: self.values(ty), n=f"{of}n",
                            z=self.column(other, of), second=second, like=lambda: self.like(of))

    @staticmethod
    def comparisons():
        return ["{x} IS NULL", "{x} BETWEEN {value} AND {value}", "{x} BETWEEN SYMMETRIC {value} AND {value}",
                "{x} IS DISTINCT FROM {y}", "{x} IS NOT DISTINCT FROM {y}", "NOT ({x} = {y})", "({x} = {y}) IS NOT TRUE",
                "CASE {x} WHEN {value} THEN true WHEN {value} THEN false ELSE {n} % 2 = 0 END",
                "coalesce({x}, {value}) = {value}",
                "nullif({x}, {value}) IS NULL", "greatest({x}, {value}) {comparison} {value}", "least({x}, {value}) = {x}"]

    @staticmethod
    def lists_and_rows():
        return ["{x} IN ({many})", "{x} NOT IN ({many})", "{x} = ANY (ARRAY[{many}])", "{x} > ALL (ARRAY[{many}])",
                "{x} < ANY (ARRAY[{many}, NULL])", "({x}, {z}) {comparison} ({value}, {second})",
                "({x}, {z}, {n}) < ({value}, {second}, 50)",
                "({x}, {z}, {n}) >= ({value}, {second}, 20)"]

    def like(self, of=""):
        if self.random.random() < 0.4:
            return self.regex(of)
        pattern = constant("text", self.pick([*PATTERNS, *MORE_PATTERNS]))
        return self.fill("{of}t1 {word} {pattern}", "{of}t1 {word} {pattern} {collation}", "starts_with({of}t1, {text})",
                         of=of, word=self.pick(["LIKE", "NOT LIKE", "ILIKE"]), pattern=pattern)

    def regex(self, of):
        """A regular expression, whose classes of letters are the collation's."""
        pattern = constant("text", self.pick([*REGEXES[:-3], *MORE_REGEXES]))
        if self.random.random() < 0.3:
            pattern = constant("text", self.pick(SIMILARS[:-2]))
            return self.fill("{of}t1 {word} {pattern}", of=of, word=self.pick(["SIMILAR TO", "NOT SIMILAR TO"]), pattern=pattern)
        insensitive = self.fill("{of}t1 {word} {pattern}", of=of, word=self.pick(["~*", "!~*"]), pattern=pattern)  # which Turkish has not
        sensitive = self.fill("{of}t1 {word} {pattern}", "{of}t1 {collation} {word} {pattern}", of=of, word=self.pick(["~", "!~"]), pattern=pattern)
        return self.pick([insensitive, sensitive])

    def order(self, of=""):
        """Columns to order by, without the n that makes the order complete."""
        names = [self.column() for _ in range(self.random.randint(1, 3))]
        collations = [f" {self.collation()}" if type_of(name) == "text" and self.random.random() < 0.5 else "" for name in names]
        return ", ".join(f"{of}{name}{collation}{self.direction()}" for name, collation in zip(names, collations))

    def aggregate(self):
        """One whose result depends neither on the order of rows nor on which of equal values is shown."""
        return self.fill("opened({sum}({exact}))", "opened({sum}(DISTINCT {integer}))", "opened({extreme}({orderable}))",
                         "count(DISTINCT {column})", "count({column}) FILTER (WHERE {condition})",
                         "array_agg(n ORDER BY {order}, n)",
                         sum=self.pick(["sum", "avg"]), exact=self.column(self.pick(EXACT)),
                         integer=self.column(self.pick(["int4", "int8"])), extreme=self.pick(["min", "max"]),
                         orderable=self.column(self.pick([ty for ty in CANONICAL if ty not in WITHOUT_EXTREMES])))
