"""Random expressions, as SQL and as lines for the example `evaluate` (imported by test_values.py only).

Invariants: the same seed gives the same expressions; no NULL, no zero byte. Operands are given by their text, so that
every expression is a test of its types' input functions too.
"""

import random
import re

from samples import (
    AGGREGATES, ANCHORS, AROUND, ATOMS, DATE_PIECES, EDGES, FIELDS, FORMATS, INTERVALS, INTERVAL_PIECES, ISO_PIECES,
    LETTERS, MALFORMED, MILLION, NUMBERS, OPERATORS, OPTIONS, PAIRS, PATTERNS, PIECES, QUANTIFIERS, SIMILAR_PIECES, STYLES,
    SUBJECTS, TIMES, TYPES, ZONES)


def literal(text, ty):
    """A value in SQL."""
    return "'" + text.replace("'", "''") + f"'::{ty}"


def word(text):
    """A text in a line."""
    return "x" + text.encode().hex()


class Expressions:
    """A source of expressions."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.choice = self.random.choice

    def make(self, count):
        """So many pairs of SQL and line."""
        kinds = [self.parse, self.cast, self.arithmetic, self.arithmetic, self.arithmetic, self.unary, self.compare,
                 self.compare, self.concat, self.span, self.span, self.span, self.odd_interval, self.odd_interval, self.odd_interval, self.like, self.like, self.escape, self.regex, self.regex, self.regex, self.similar, self.interval, self.interval, self.substring, self.one_text, self.counted_text, self.padded_text, self.searched_text, self.searched_text, self.extract, self.extract, self.rounding, self.rounding, self.truncation, self.characters, self.digits, self.zoned, self.shown, self.shown, self.number, self.number, self.number, self.pairs,
                 self.aggregate, self.aggregate, self.aggregate, self.spread, self.decimals, self.decimals, self.odd_date]
        made = [*self.all_malformed(), *self.all_casts(), *self.all_extracts(), *self.all_intervals(), *self.all_spans(), *self.all_styles(), *self.all_anchors(), *self.large()]
        while len(made) < count:
            made.append(self.choice(kinds)())
        return made

    def all_malformed(self):
        """Every edge and every malformed text of every type."""
        for ty in TYPES:
            for text in [*EDGES[ty], *MALFORMED.get(ty, [])]:
                yield literal(text, ty), f"parse {ty} {word(text)}"

    def all_casts(self):
        """Every pair of types, by every edge; so too a text to each type."""
        for ty in TYPES:
            for to in TYPES:
                for text in EDGES[ty]:
                    yield f"({literal(text, ty)})::{to}", f"cast {ty} {word(text)} {to}"
        for to in MALFORMED:
            for text in [*EDGES[to], *MALFORMED[to]]:
                yield f"({literal(text, 'text')})::{to}", f"cast text {word(text)} {to}"

    def all_extracts(self):
        """Every field of every edge."""
        for ty in ["date", "timestamp", "timestamptz", "interval"]:
            for field in FIELDS:
                for text in EDGES[ty]:
                    yield f"extract({field} FROM {literal(text, ty)})", f"extract {field} {ty} {word(text)}"

    def all_intervals(self):
        """Every edge with every edge of intervals."""
        for ty in TIMES:
            for text in EDGES[ty]:
                for interval in INTERVALS:
                    yield self.interval_pair(self.choice(["add", "sub"]), ty, text, interval)

    def all_spans(self):
        """Every edge of intervals with every other; sums of them, and products with numbers."""
        for a in EDGES["interval"]:
            yield f"- {literal(a, 'interval')}", f"negate interval {word(a)}"
            for b in EDGES["interval"]:
                for op in "+-":
                    yield self.binary(op, "interval", a, "interval", b)
                yield self.compare_pair("interval", a, b)
            for b in EDGES["float8"]:
                yield self.binary("*", "interval", a, "float8", b)
                yield self.binary("*", "float8", b, "interval", a)
                yield self.binary("/", "interval", a, "float8", b)

    def all_styles(self):
        """Every edge and every malformed text in every style."""
        for style in STYLES:
            for text in [*EDGES["interval"], *MALFORMED["interval"]]:
                yield self.styled(style, text)

    def styled(self, style, text):
        return f"v.styled('{style}', {literal(text, 'text')})", f"styled {style} {word(text)}"

    def all_anchors(self):
        """Begins, ends and words, beside each other and alone, of short texts."""
        patterns = [*ANCHORS, "\\Ya", "a\\Y", "\\Y\\Y", "^\\Y", "\\Y$", "\\y\\y", "\\m\\M", "(\\Y|x)*\\Y", "a\\Z", "a$", "(?n)a$", "(?n)^b", "(?w).", "(?p).b",
                    ".b", "^$", "(^)*", "(^|a)+b", "\\Y\\y", "x*\\Y"]
        for text in ["a", "a b", " ", "\u00e4", "a\u00e4b", "\u00c4", "a\n", "\n", "a\nb", "", "a1_", "\U0001f600"]:
            for pattern in patterns:
                yield self.regex_pair(text, pattern, False)
                yield self.regex_pair(text, pattern, True)

    def large(self):
        """Texts of a megabyte; patterns with many wildcards."""
        texts = ["a" * MILLION, "\u00e4b" * (MILLION // 3), "ab" * (MILLION // 2)]
        for text in texts:
            sql, line = literal(text, "text"), f"text {word(text)}"
            yield f"length({sql})", f"length {line}"
            yield f"upper({sql})", f"upper {line}"
            yield f"substring({sql}, 1000000, 5)", f"substring {line} 1000000 5"
            for part in ["b", "ab", "aab", "\u00e4"]:
                others = literal(part, "text"), word(part)
                yield f"strpos({sql}, {others[0]})", f"position {line} {others[1]}"
                yield f"split_part({sql}, {others[0]}, -7)", f"split_part {line} {others[1]} -7"
                yield f"replace({sql}, {others[0]}, '')", f"replace {line} {others[1]} x"
            yield f"compare_texts({sql}, {sql})".replace("compare_texts", "bttextcmp"), f"compare {line} {line}"
            for pattern in ["%b", "%\u00e4%", "a%a", "%aab%", "_%_%b%c", "b%"]:
                yield self.like_pair("text", text, pattern, "\\", False)
        yield self.like_pair("text", "ab" * 500, "%a" * 400, "\\", False)
        yield self.like_pair("text", "ab" * 500, "%a%" * 600, "\\", False)

    def value(self, ty):
        """The text of a value."""
        if ty in ("text", "bytea") and self.random.random() < 0.5:
            pieces = "".join(self.choice(PIECES) for _ in range(self.random.randrange(6)))
            return pieces.replace("\\", "\\\\") if ty == "bytea" else pieces
        if self.random.random() < 0.4:
            return self.choice(EDGES[ty])
        return getattr(self, f"random_{ty}")()

    def random_int4(self):
        return str(self.random.getrandbits(self.random.randrange(1, 32)) * self.choice([1, -1]))

    def random_int8(self):
        return str(self.random.getrandbits(self.random.randrange(1, 64)) * self.choice([1, -1]))

    def random_float8(self):
        return repr(self.random.uniform(-10, 10) * 10.0 ** self.random.choice([0, 0, 1, 5, 15, 20, 22, -4, -5, -20, 150, -150]))

    def random_float4(self):
        return "%.9g" % (self.random.uniform(-10, 10) * 10.0 ** self.random.choice([0, 0, 1, 4, 5, 6, 9, 10, -4, -5, -20, 20]))

    def random_numeric(self):
        digits = "".join(self.choice("0123456789" if self.random.random() < 0.8 else "09") for _ in
                         range(self.random.choice([1, 2, 4, 5, 8, 9, 12, 16, 17, 20, 33, 60])))
        point = self.random.randrange(len(digits) + 1)
        exponent = self.choice(["", "", "", "", f"e{self.random.randrange(-30, 30)}"])
        return self.choice(["", "", "-"]) + (digits[:point] + "." + digits[point:]).strip(".") + exponent

    def random_bool(self):
        return self.choice("tf")

    def random_date(self):
        year = self.choice([self.random.randrange(1, 4713), self.random.randrange(1600, 2400), self.random.randrange(1, 290000)])
        era = " BC" if year < 4713 and self.random.random() < 0.3 else ""
        return f"{year:04}-{self.random.randrange(1, 13):02}-{self.random.randrange(1, 29):02}{era}"

    def random_timestamp(self):
        date, _, era = self.random_date().partition(" ")
        fraction = self.choice(["", f".{self.random.randrange(10 ** 6):06}", f".{self.random.randrange(10 ** 8)}"])
        time = f"{self.random.randrange(24):02}:{self.random.randrange(60):02}:{self.random.randrange(60):02}{fraction}"
        return f"{date}{self.choice(' T')}{time}" + (" " + era if era else "")

    def random_timestamptz(self):
        text, _, era = self.random_timestamp().partition(" BC")
        zone = self.choice(["", "Z", "+00", "-08", "+05:30", "+0530", "-15:59:59", " UTC"])
        return text + zone + (" BC" if era or _ else "")

    def random_uuid(self):
        return f"{self.random.getrandbits(128):032x}"

    def random_bytea(self):
        return "\\x" + self.random.randbytes(self.random.randrange(12)).hex()

    def random_text(self):
        return "".join(chr(self.choice([self.random.randrange(32, 127), self.random.randrange(0xa0, 0x250),
                                        self.random.randrange(0x1f300, 0x1f600)])) for _ in range(self.random.randrange(12)))

    def random_interval(self):
        number = self.random.randrange
        months, days, time = (number(-10 ** limit, 10 ** limit) if self.random.random() < 0.7 else 0
                              for limit in (self.choice([1, 2, 4, 8]), self.choice([1, 3, 6, 9]), self.choice([2, 7, 12, 18])))
        return f"{months} mons {days} days {time} us"

    def near_time(self):
        """A time that is no infinity, and at most 292000 years from others."""
        year = self.choice([self.random.randrange(1, 4713), self.random.randrange(1990, 2030), self.random.randrange(1, 280000)])
        return f"{year:04}-{self.random.randrange(1, 13):02}-{self.random.randrange(1, 32):02} {self.random.randrange(24):02}:{self.random.randrange(60):02}:{self.choice(['00', '30.5', '59.999999'])}"

    def span(self):
        """Operators of intervals, and of times between which they are."""
        kind = self.random.random()
        if kind < 0.35:
            ty = self.choice(["timestamp", "timestamptz"])
            a, b = self.near_time(), self.near_time()
            if self.random.random() < 0.4:
                return self.binary("-", ty, a, ty, b)
            return f"age({literal(a, ty)}, {literal(b, ty)})", f"age {ty} {word(a)} {ty} {word(b)}"
        if kind < 0.5:
            left, right = self.choice([(self.choice(TIMES), "interval"), ("interval", self.choice(TIMES))])
            return self.binary("+" if left == "interval" else self.choice("+-"), left, self.value(left), right, self.value(right))
        if kind < 0.7:
            left, right = self.choice([("interval", "float8"), ("float8", "interval")])
            return self.binary("*" if left == "float8" else self.choice("*/"), left, self.value(left), right, self.value(right))
        left, right = self.choice([("interval", "interval")] * 9 + [("interval", "int4"), ("interval", "numeric"), ("date", "interval"), ("interval", "text")])
        op = self.choice("+-") if right == "interval" else "%"
        return self.binary(op, left, self.value(left), right, self.value(right))

    def odd_interval(self):
        """Pieces of intervals in any order, in any style."""
        pieces, text = self.choice([INTERVAL_PIECES, INTERVAL_PIECES, ISO_PIECES]), ""
        for _ in range(self.random.randrange(1, 7)):
            text += self.choice(pieces) + ("" if pieces is ISO_PIECES else self.choice([" ", " ", " ", "", ", "]))
        if pieces is ISO_PIECES:
            text = "P" + text
        return self.styled(self.choice(STYLES), text.strip())

    def parse(self):
        """A value, or one with a character changed."""
        ty = self.choice(TYPES)
        text = self.value(ty)
        if self.random.random() < 0.5 and text and ty not in ("text", "date", "timestamp", "timestamptz"):
            at = self.random.randrange(len(text))
            text = text[:at] + self.choice(list("0159-+.eE x:") + [""]) + text[at + self.random.randrange(2):]
        return literal(text, ty), f"parse {ty} {word(text)}"

    def odd_date(self):
        """Pieces of dates in any order."""
        ty = self.choice(["date", "timestamp", "timestamptz"])
        text = ""
        for _ in range(self.random.randrange(1, 6)):
            piece = self.choice(DATE_PIECES)
            if text[-1:].isalpha() and piece[0].isalpha():  # no abbreviation of a zone
                text += " "
            text += piece + self.choice([" ", " ", " ", "", ", ", "-", "/", ".", ":"])
        text = text.strip(" -")
        return literal(text, ty), f"parse {ty} {word(text)}"

    def cast(self):
        ty, to = self.choice(TYPES), self.choice(TYPES)
        text = self.value(ty)
        return f"({literal(text, ty)})::{to}", f"cast {ty} {word(text)} {to}"

    def arithmetic(self):
        """Numbers of one type or of two; dates with numbers."""
        left = self.choice(NUMBERS)
        right = left if self.random.random() < 0.6 else self.choice(NUMBERS)
        op = self.choice(OPERATORS)
        if self.random.random() < 0.1:
            left, right = self.choice([("date", "int4"), ("int4", "date"), ("date", "date"), ("date", "int8"), ("text", "int4")])
        return self.binary(op, left, self.operand(left, op), right, self.operand(right, op))

    def operand(self, ty, op):
        """A value; for powers one that does not take PostgreSQL minutes."""
        text = self.value(ty)
        while op == "^" and ty == "numeric" and len(text) > 1 and "e" in text:
            text = self.value(ty)
        return text

    def decimals(self):
        """numeric with numeric: where rounding and scale are decided."""
        op = self.choice("+-*/%/^^")
        if op == "^":
            left, right = self.power()
        else:
            left, right = (self.long_numeric() if self.random.random() < 0.3 else self.value("numeric") for _ in range(2))
        return self.binary(op, "numeric", left, "numeric", right)

    def power(self):
        """A base and an exponent; results are neither zero nor too large, mostly."""
        uniform = self.random.uniform
        base, exponent = self.choice([
            (self.operand("numeric", "^"), self.operand("numeric", "^")),
            (self.operand("numeric", "^"), str(self.random.randrange(-60, 60))),
            (self.operand("numeric", "^"), f"{uniform(-9, 9):.5f}"),
            (self.choice(["2", "4", "5", "8", "16", "0.5", "25", "-2", "1.5", "20", "125"]), str(self.random.randrange(-90, 300))),
            (f"1.{self.random.randrange(10 ** 9):012}", str(self.random.randrange(-2 ** 31, 2 ** 31) >> self.random.randrange(12, 24))),
            (f"0.{10 ** 12 - self.random.randrange(10 ** 6)}", str(self.random.getrandbits(self.random.randrange(8, 40)))),
            (f"{uniform(0, 1e9):.9f}", f"{uniform(-90, 90):.9f}"),
            (f"{10 ** uniform(-30, -1):.40f}", f"{uniform(-20, 20):.3f}"),
            (f"1.{'0' * self.random.randrange(40)}1", f"{10 ** uniform(0, 30):.3f}"),
        ])
        return base, exponent

    def long_numeric(self):
        """Digits by the hundreds, some of them in runs of the same."""
        length = self.choice([40, 80, 200, 900, 3000])
        digits = "".join(self.choice("0123456789") * self.choice([1, 1, 1, 4, 8, 40]) for _ in range(length))[:length]
        point = self.random.randrange(length + 1)
        return self.choice(["", "-"]) + (digits[:point] + "." + digits[point:]).strip(".")

    def binary(self, op, left, a, right, b):
        return f"{literal(a, left)} {op} {literal(b, right)}", f"{op} {left} {word(a)} {right} {word(b)}"

    def unary(self):
        ty = self.choice([*NUMBERS, *NUMBERS, "bool", "date", "text", "uuid", "interval"])
        text = self.value(ty)
        name = self.choice(["negate", "abs"])
        sql = f"- {literal(text, ty)}" if name == "negate" else f"abs({literal(text, ty)})"
        return sql, f"{name} {ty} {word(text)}"

    def compare_pair(self, ty, a, b):
        x, y = literal(a, ty), literal(b, ty)
        return f"CASE WHEN {x} < {y} THEN -1 WHEN {x} = {y} THEN 0 WHEN {x} > {y} THEN 1 END", f"compare {ty} {word(a)} {ty} {word(b)}"

    def compare(self):
        """The order; half of the time of a value and one near to it."""
        ty = self.choice([*TYPES, "numeric", "text"])
        a, b = self.value(ty), self.value(ty)
        if self.random.random() < 0.3:
            b = a + "0" if ty == "numeric" and "." in a and "e" not in a else a
        return self.compare_pair(ty, a, b)

    def concat(self):
        ty = self.choice(["text", "bytea"])
        return self.binary_named("concat", "||", ty, self.value(ty), self.value(ty))

    def binary_named(self, name, op, ty, a, b):
        return f"{literal(a, ty)} {op} {literal(b, ty)}", f"{name} {ty} {word(a)} {ty} {word(b)}"

    def like(self):
        """A text, and a pattern made of pieces, or of the text with some replaced."""
        ty = self.choice(["text", "text", "text", "bytea"])
        insensitive = ty == "text" and self.random.random() < 0.3
        text = "".join(self.choice(PIECES) for _ in range(self.random.randrange(8)))
        pattern = "".join(self.choice(PIECES) for _ in range(self.random.randrange(7)))
        if self.random.random() < 0.5:
            pattern = "".join(self.choice([c, c, c, "%", "_", "\\" + c]) for c in text)
        escape = self.choice(["\\", "\\", "\\", "", "#", "x", "a", "%", "\u00e4" if ty == "text" else "b"])
        if ty == "bytea":
            text, pattern = text.replace("\\", "\\\\"), pattern.replace("\\", "\\\\")
        return self.like_pair(ty, text, pattern, escape, insensitive)

    def like_pair(self, ty, text, pattern, escape, insensitive):
        name = "ilike" if insensitive else "like"
        clause = "" if escape == "\\" else f" ESCAPE {literal(escape, ty)}"
        sql = f"{literal(text, ty)} {name} {literal(pattern, ty)}{clause}"
        return sql, f"{name} {ty} {word(text)} {ty} {word(pattern)} {word(escape)}"

    def escape(self):
        """A pattern with another escape, which may be none, or no character."""
        pattern = "".join(self.choice(PIECES) for _ in range(self.random.randrange(7)))
        escape = self.choice(["", "#", "a", "\\", "%", "\u00e4", "\u20ac", "##", "a\u0301"])
        return f"like_escape({literal(pattern, 'text')}, {literal(escape, 'text')})", f"escape text {word(pattern)} {word(escape)}"

    def regex(self):
        """A text and a regular expression."""
        text = "".join(self.choice(SUBJECTS) for _ in range(self.random.randrange(7)))
        return self.regex_pair(text, self.pattern(self.random.randrange(4)), self.random.random() < 0.3)

    def regex_pair(self, text, pattern, insensitive):
        sql = f"{literal(text, 'text')} ~{'*' * insensitive} {literal(pattern, 'text')}"
        return sql, f"{'i' * insensitive}regex text {word(text)} text {word(pattern)}"

    def pattern(self, depth):
        """A regular expression; most are well formed."""
        parts = [self.choice(OPTIONS)] if depth == 3 and self.random.random() < 0.3 else []
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            part = self.choice(ATOMS)
            if depth and self.random.random() < 0.4:
                part = self.choice(["({})", "(?:{})", "({}|{})", "(|{})", "{}|{}", "()", "(?#b){}", "({}", "{})"])
                part = part.format(*(self.pattern(depth - 1) for _ in range(2)))
            elif self.random.random() < 0.2:
                part = self.choice(ANCHORS)
            if self.random.random() < 0.35:
                part += self.choice(QUANTIFIERS)
            parts.append(part)
        return "".join(parts)

    def similar(self):
        """A text and a pattern of SIMILAR TO; the regular expression of one with another escape."""
        pattern = "".join(self.choice(SIMILAR_PIECES) for _ in range(self.random.randrange(6)))
        if self.random.random() < 0.5:
            escape = self.choice(["", "#", "\\", "\u00e4", "\u20ac", "##", "["])
            return f"similar_to_escape({literal(pattern, 'text')}, {literal(escape, 'text')})", f"similar_escape text {word(pattern)} {word(escape)}"
        text = "".join(self.choice(SUBJECTS) for _ in range(self.random.randrange(5)))
        return f"{literal(text, 'text')} SIMILAR TO {literal(pattern, 'text')}", f"similar text {word(text)} text {word(pattern)}"

    def interval(self):
        """A time and an interval that mostly leads to another one."""
        ty, number = self.choice(TIMES), self.random.randrange
        fields = [number(-10 ** limit, 10 ** limit) if self.random.random() < 0.7 else 0
                  for limit in (self.choice([1, 2, 4, 6]), self.choice([1, 3, 6, 7]), self.choice([2, 7, 12, 18]))]
        return self.interval_pair(self.choice(["add", "sub"]), ty, self.value(ty), fields)

    def interval_pair(self, name, ty, text, fields):
        months, days, microseconds = fields
        interval = f"(interval '{months} mons' + interval '{days} days' + interval '{microseconds} us')"
        sql = f"{literal(text, ty)} {'+' if name == 'add' else '-'} {interval}"
        return sql, f"{name}-interval {ty} {word(text)} {months} {days} {microseconds}"

    def substring(self):
        ty = self.choice(["text", "text", "bytea"])
        text = self.value(ty)
        start = self.choice([0, 1, 2, 3, -1, -5, 100, 2147483647, -2147483648, self.random.randrange(-9, 9)])
        length = self.choice([None, 0, 1, 2, 5, -1, 2147483647, self.random.randrange(-2, 9)])
        rest = "" if length is None else f" {length}"
        call = f"substring({literal(text, ty)}, {start}{',' if rest else ''}{rest})"
        return call, f"substring {ty} {word(text)} {start}{rest}"

    def one_text(self):
        name = self.choice(["length", "lower", "upper", "initcap", "reverse"])
        ty = "bytea" if name == "length" and self.random.random() < 0.3 else self.choice(["text", "text", "text", "int4"])
        text = self.value(ty)
        return f"{name}({literal(text, ty)})", f"{name} {ty} {word(text)}"

    def counted_text(self):
        """A function of a text and a number."""
        name = self.choice(["left", "right", "repeat"])
        text = self.value("text")
        number = self.choice([0, 1, 2, -1, -2, 100, -100, -2147483647, -2147483648, self.random.randrange(-9, 9)])
        if name != "repeat" or text:  # PostgreSQL repeats the empty text for seconds
            number = self.choice([number, number, number, 2147483647])
        return f"{name}({literal(text, 'text')}, {number})", f"{name} text {word(text)} {number}"

    def padded_text(self):
        name, text = self.choice(["lpad", "rpad"]), self.value("text")
        fill = self.choice(["", " ", "x", "\u00e4b", "\U0001f600"])
        length = self.choice([0, 1, 2, 5, 20, -1, -2147483648, 2147483647, 268435455, self.random.randrange(30)])
        return f"{name}({literal(text, 'text')}, {length}, {literal(fill, 'text')})", f"{name} text {word(text)} {length} {word(fill)}"

    def searched_text(self):
        """A text of few letters, and another that may be in it, or is a set of letters."""
        text, part, other = ("".join(self.choice(LETTERS) for _ in range(self.random.randrange(most))) for most in (12, 4, 4))
        sql, line = literal(text, "text"), f"text {word(text)} {word(part)}"
        name = self.choice(["btrim", "ltrim", "rtrim", "position", "replace", "split_part", "starts_with"])
        if name == "replace":
            return f"replace({sql}, {literal(part, 'text')}, {literal(other, 'text')})", f"{name} {line} {word(other)}"
        if name == "split_part":
            field = self.choice([0, 1, 2, 3, -1, -2, -3, 9, -9, 2147483647, -2147483648])
            return f"split_part({sql}, {literal(part, 'text')}, {field})", f"{name} {line} {field}"
        if name == "position":
            return self.choice([f"position({literal(part, 'text')} IN {sql})", f"strpos({sql}, {literal(part, 'text')})"]), f"{name} {line}"
        if self.random.random() < 0.1:
            part *= 40
            line = f"text {word(text)} {word(part)}"
        return f"{name}({sql}, {literal(part, 'text')})", f"{name} {line}"

    def extract(self):
        field, ty = self.choice(FIELDS), self.choice(["date", "timestamp", "timestamptz", "timestamp", "interval", "interval", "int4"])
        text = self.value(ty)
        if ty in [*TIMES, "interval"] and self.random.random() < 0.4:
            return f"date_part('{field}', {literal(text, ty)})", f"date_part {field} {ty} {word(text)}"
        return f"extract({field} FROM {literal(text, ty)})", f"extract {field} {ty} {word(text)}"

    def truncation(self):
        """Units that date_trunc knows."""
        field = self.choice([name for name in FIELDS if name not in ("dow", "doy", "epoch", "isodow", "isoyear", "julian")])
        ty = self.choice(["date", "timestamp", "timestamptz"])
        text = self.value(ty)
        return f"date_trunc('{field}', {literal(text, ty)})", f"date_trunc {field} {ty} {word(text)}"

    def rounding(self):
        name, ty = self.choice(["round", "trunc", "ceil", "floor"]), self.choice(["numeric", "numeric", *NUMBERS])
        text = self.value(ty)
        if ty == "numeric" and name in ("round", "trunc") and self.random.random() < 0.7:
            decimals = self.choice([0, 1, 2, 3, 4, 5, 8, 20, -1, -2, -4, -5, -30])
            return f"{name}({literal(text, ty)}, {decimals})", f"{name} {ty} {word(text)} {decimals}"
        return f"{name}({literal(text, ty)})", f"{name} {ty} {word(text)}"

    def zoned(self):
        """AT TIME ZONE: of an offset, and of zones whose clocks were changed in many ways."""
        ty, zone = self.choice(["timestamp", "timestamptz"]), self.choice(ZONES)
        text = self.value(ty)
        if self.random.random() < 0.7:
            # When clocks were changed, and around it.
            text = f"{self.random.randint(1880, 2060)}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02} {self.random.randint(0, 23):02}:{self.choice(['00', '30', '59:59.999999'])}"
        return f"{literal(text, ty)} AT TIME ZONE '{zone}'", f"zone {ty} {word(text)} {zone}"

    def shown(self):
        """to_char, by formats of keywords and of what is none."""
        ty = self.choice(TIMES)
        text, parts = self.value(ty), [self.choice(FORMATS) for _ in range(self.random.randint(0, 6))]
        shown = "".join(self.choice([part, part, part, part.lower(), part.upper()]) + self.choice(["", "", "", "th", "TH", "SP"]) for part in parts)
        return f"to_char({literal(text, ty)}, {literal(shown, 'text')})", f"to_char {ty} {word(text)} {word(shown)}"

    def number(self):
        """to_char of numbers: formats as people write them, and any patterns."""
        ty = self.choice(NUMBERS)
        if self.random.random() < 0.5:
            parts = [self.choice(PATTERNS if self.random.random() < 0.85 else AROUND) for _ in range(self.random.randint(0, 7))]
        else:
            digits = "".join(self.choice("9990,G") for _ in range(self.random.randint(1, 9)))
            behind = self.choice(["", "", ".", "D", "V"]) + "".join(self.choice("9990") for _ in range(self.random.randint(0, 4)))
            parts = [self.choice(["", "", "FM"]), self.choice(["", "", "S", "MI", "PL", "SG"]), digits, behind, self.choice(["", "", "", "S", "MI", "PL", "SG", "PR", "TH", "th", "EEEE"])]
        # "SPL" would be SP and L, which is refused.
        text, shown = self.value(ty), re.sub("s+pl", "pl", "".join(parts), flags=re.I)
        if self.random.random() < 0.5:
            text = str(self.random.randint(-12000, 12000)) if ty.startswith("int") else f"{self.random.randint(-120000, 120000) / self.choice([1, 10, 100, 1000, 100000])}"
        return f"to_char({literal(text, ty)}, {literal(shown, 'text')})", f"to_char {ty} {word(text)} {word(shown)}"

    def pairs(self):
        """Aggregates of two numbers, in the order of the rows."""
        kind, y, x = self.choice(PAIRS), self.choice(NUMBERS), self.choice(NUMBERS)
        count = self.choice([0, 1, 2, 3, 10, 30])
        slope, offset = self.choice([0, 1, -2, 1000003]), self.random.randint(-99, 99)
        values = [(self.value(y), self.value(x)) for _ in range(count)]
        if self.random.random() < 0.6:
            numbers = [self.random.randint(-99, 99) for _ in range(count)]
            values = [(str(slope * n + offset + self.choice([0, 0, 1])), str(n)) for n in numbers]
        rows = ", ".join(f"({place}, {literal(a, y)}, {literal(b, x)})" for place, (a, b) in enumerate(values))
        table = f"(VALUES {rows})" if values else f"(SELECT 1, {literal('1', y)}, {literal('1', x)} WHERE false)"
        words = " ".join(["pairs", kind, y, x, *(word(text) for pair in values for text in pair)])
        return f"(SELECT {kind}(y, x ORDER BY place) FROM {table} AS t (place, y, x))", words

    def characters(self):
        """What a cast to varchar(n), or an assignment to such a column, makes of a text."""
        text, most, cuts = self.value("text") + " " * self.choice([0, 0, 1, 3]), self.choice([1, 2, 3, 5, 10_485_760]), self.choice("tf")
        sql = f"pg_catalog.\"varchar\"({literal(text, 'text')}::varchar, {most + 4}, '{cuts}')::text"
        return sql, f"varchar text {word(text)} {most} {cuts}"

    def digits(self):
        """What numeric(precision, scale) makes of a number."""
        text, precision, scale = self.value("numeric"), self.choice([1, 2, 3, 5, 12, 40, 1000]), self.choice([0, 1, 2, 3, 5, 8, 20, -1, -3, -5, 1000])
        return f"{literal(text, 'numeric')}::numeric({precision}, {scale})", f"digits numeric {word(text)} {precision} {scale}"

    def spread(self):
        """Variances of values that are near to each other, or the same."""
        kind, ty = self.choice(["var_pop", "variance", "stddev_pop", "stddev"]), self.choice(NUMBERS)
        values = [self.value(ty) for _ in range(self.choice([1, 2, 3, 30]))]
        if ty in ("numeric", "float8") and self.random.random() < 0.7:
            first, digits = self.choice(["3", "1000000000", "12345678901234567890", "-0"]), self.choice([1, 2, 5, 20])
            values = [f"{first}.{''.join(self.choice('0123456789') for _ in range(digits))}" for _ in values]
        if self.random.random() < 0.2:
            values = [values[0]] * 3
        return self.aggregate_of(kind, ty, values)

    def aggregate(self):
        """Of no rows to many; the order matters for floats."""
        kind, ty = self.choice(AGGREGATES), self.choice([*TYPES, *NUMBERS, "numeric", "interval"])
        if kind.startswith("bool") and self.random.random() < 0.8:
            ty = "bool"
        while kind in ("min", "max") and ty == "bytea":  # exists since 18
            ty = self.choice(TYPES)
        values = [self.value(ty) for _ in range(self.choice([0, 1, 2, 3, 4, 10, 30]))]
        return self.aggregate_of(kind, ty, values)

    def aggregate_of(self, kind, ty, values):
        rows = ", ".join(f"({place}, {literal(text, ty)})" for place, text in enumerate(values))
        table = f"(VALUES {rows})" if values else f"(SELECT 1, {literal(EDGES[ty][0], ty)} WHERE false)"
        words = " ".join(["aggregate", kind, ty, *map(word, values)])
        return f"(SELECT {kind}(x ORDER BY place) FROM {table} AS t (place, x))", words
