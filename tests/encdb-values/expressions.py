"""Random expressions, as SQL and as lines for the example `evaluate` (imported by test_values.py only).

Invariants: the same seed gives the same expressions; no NULL, no zero byte. Operands are given by their text, so that
every expression is a test of its types' input functions too.
"""

import random
import re

NUMBERS = ["int4", "int8", "float4", "float8", "numeric"]
TYPES = [*NUMBERS, "bool", "date", "timestamp", "timestamptz", "uuid", "bytea", "text"]
OPERATORS = "+-*/%^"
FIELDS = ["century", "day", "decade", "dow", "doy", "epoch", "hour", "isodow", "isoyear", "julian", "microseconds",
          "millennium", "milliseconds", "minute", "month", "quarter", "second", "timezone", "timezone_hour",
          "timezone_minute", "week", "year"]
# Of the database of zones, without those whose rules change with its versions.
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Etc/GMT+5", "Asia/Tokyo",
         "Africa/Monrovia", "Antarctica/Troll", "<-03>+3", "CST6CDT,M3.2.0,M11.1.0"]
# Keywords of to_char, and what is between them.
FORMATS = ["HH24", "HH12", "HH", "MI", "SS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "SSSS", "SSSSS", "AM", "p.m.", "A.M.", "Y,YYY", "YYYY", "YYY", "YY", "Y",
           "IYYY", "IYY", "IY", "I", "BC", "a.d.", "MONTH", "Month", "month", "MON", "Mon", "mon", "MM", "DAY", "Day", "day", "DY", "Dy", "dy", "DDD", "IDDD", "DD", "D", "ID",
           "W", "WW", "IW", "CC", "J", "Q", "RM", "rm", "TZ", "tz", "TZH", "TZM", "OF", "FM", "fm", "FMDD", "FMMonth", "FMDay", "FMOF", "FMHH24", "FMYYYY", "FX", "TMHH",
           "-", ":", " ", "/", "T", "x", "ä", "'", '"T"', '"a\\"b"', '"', "\\", '\\"', "24", "%", "€"]
TIMES = ["date", "timestamp", "timestamptz"]
# Patterns of to_char of numbers, and what is between them.
PATTERNS = ["9", "9", "9", "9", "99", "999", "9999", "0", "0", "00", ".", ".", "D", "d", ",", "G", "g", "S", "s", "MI", "mi", "PL", "pl", "SG", "sg", "PR", "pr", "FM", "fm",
            "TH", "th", "RN", "rn", "V", "v", "V99", "EEEE", "eeee", "B", "b", "C", "c", "SP"]
AROUND = [" ", "-", "x", "E", "R", '"a9"', '"a\\"b"', '"', "\\", '\\"', "%", "\u00e4", "Fm", "Rn", "tH", "M"]
PAIRS = ["corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"]
# Months, days, microseconds.
INTERVALS = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (12, 0, 0), (1, 1, 1), (-1, 31, -1), (-23, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1),
             (0, 0, 86_400_000_000), (3_600_000, -109_500_000, 0), (2 ** 31 - 1, 0, 0), (-2 ** 31, 0, 0), (0, 2 ** 31 - 1, 0), (0, -2 ** 31, 0),
             (0, 0, 2 ** 63 - 1), (0, 0, -2 ** 63), (2 ** 31 - 1, 2 ** 31 - 1, 2 ** 63 - 1), (-2 ** 31, -2 ** 31, -2 ** 63)]
AGGREGATES = ["count", "sum", "avg", "min", "max", "var_pop", "variance", "stddev_pop", "stddev", "bool_and", "bool_or"]
MILLION = 1 << 20

EDGES = {
    "int4": ["0", "1", "-1", "2", "-2", "7", "10", "2147483647", "-2147483648", "2147483646", "46341", "65536"],
    "int8": ["0", "1", "-1", "2", "-3", "9223372036854775807", "-9223372036854775808", "4294967296", "3037000500",
             "2147483648", "-2147483649", "1000000007"],
    "float4": ["0", "-0", "1", "-1", "0.1", "1.5", "2.5", "-3.5", "NaN", "Infinity", "-Infinity", "3.4028235e38",
               "1.17549435e-38", "1e-45", "1e38", "1e-38", "16777216", "16777217", "2147483648", "8388608.5", "123456",
               "1234567", "0.0001", "0.00001", "9.2233720e18", "33554430", "5e9", "1e10"],
    "float8": ["0", "-0", "1", "-1", "0.1", "0.5", "1.5", "-2.5", "3", "NaN", "Infinity", "-Infinity",
               "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "1e300", "1e-300", "1e23", "9.5e22",
               "9007199254740993", "2147483647.5", "-2147483648.5", "9223372036854775807", "-9223372036854775808",
               "1e15", "1e16", "123456789012345", "0.0001", "0.00001", "1e22", "5e22", "2e23", "1e-7"],
    "numeric": ["0", "0.00", "1", "-1", "1.0", "1.00", "0.1", "0.5", "1.5", "-2.5", "2", "10", "100", "0.01", "9999",
                "10000", "9999.9999", "0.00001", "-0.0001", "NaN", "Infinity", "-Infinity", "2147483647.5",
                "-2147483648.5", "9223372036854775807.4", "9223372036854775807.5", "1e400", "1e-400", "1e131071",
                "1e-16383", "9.99999999999999999999", "0.33333333333333333333", "12345678901234567890.123456789",
                "1.000000000000000000000001", "0.9999999999999999", "3.14159265358979", "1e308", "1e309", "1e-330"],
    "bool": ["t", "f", "true", "false", "yes", "no", "on", "off", "1", "0", "TR", " fa ", "of"],
    "date": ["2000-01-01", "1970-01-01", "1999-12-31", "2024-02-29", "0001-01-01", "0001-12-31 BC", "4714-11-24 BC",
             "5874897-12-31", "infinity", "-infinity", "epoch", "2021-01-03", "2020-12-31", "1582-10-15", "1900-02-28",
             "0010-01-01 BC", "0011-12-31 BC", "0100-06-01", "0101-01-01 BC", "294276-12-31", "294277-01-01"],
    "timestamp": ["2000-01-01 00:00:00", "1970-01-01 00:00:00", "1999-12-31 23:59:59.999999", "2024-02-29 12:34:56.7",
                  "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999", "infinity", "-infinity", "epoch",
                  "0001-01-01 00:00:01 BC", "2021-01-03T04:05:06.000001", "2000-01-01 24:00:00", "0044-03-15 12:00 BC"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
             "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"],
    "bytea": ["", "\\x", "\\x00", "\\x00ff", "a", "abc", "\\\\", "\\000\\377", "\\xDE AD\nbe ef", "a_c", "%", "\\x5c"],
    "text": ["", "a", "b", "ab", "abc", "ABC", "a%c", "a_c", "a\\c", "%", "_", "\\", " ", "\u00e4\u00f6\u00fc", "\u00c4",
             "\u20ac", "\U0001f600", "e\u0301", "a\nb", "'", "\u0130I\u0131i", "true", "0", "1e5", "\u00df", "\x7f", "\x01"],
}
EDGES["timestamptz"] = [*EDGES["timestamp"], "2000-01-01 00:00:00+15:59:59", "2000-01-01 00:00:00-05", "2000-01-01 00:00Z",
                        "294276-12-31 23:59:59.999999-00:00:01", "4714-11-24 00:00:00+00:00:01 BC"]
MALFORMED = {
    "int4": ["", "x", "1.0", "1 2", "--1", "2147483648", "-2147483649", "99999999999x", "1e3", " 5 ", "+5", "\t6\n", "0x10"],
    "int8": ["", "9223372036854775808", "-9223372036854775809", "1.", " -0 ", "1_000"],
    "float4": ["", ".", "1e", "1e40", "1e-60", "nan ", "inf", "-inf", "+infinity", "infinit", "1 x", "1e-46", "nan(x)", ".5", "5.",
               "0x1.000001p0", "0x1.0000010001p0", "0x1.ffffffp127", "0x1p-149", "0x1p-150", "0x1.1p-150", "0x1.fp3 ", "0x1.gp3"],
    "float8": ["", "e5", "1e309", "-1e309", "1e-400", "0e-400", "+inf", "- 1", "1..2", ".5e1", "5.e1", "0x10", "-0X1.8p3", "0x", "0x.p1", "0x1p", "0x1p-1074", "0x1p-1075", "0x1.8p-1075",
               "0x1p1024", "0x1.fffffffffffff8p1023", "0x1.00000000000008p0", "0x1.000000000000080000000000001p0", "0x0p9999", "-nan", "iNfInItY x"],
    "numeric": ["", ".", "1e", "1e 5", "1e+5", " 1.50 ", "1.2.3", "1e200000", "1e-20000", "0e200000", "1e99999999999", "-.5",
                "5.", "+inf", "nan", " -Infinity ", "NaNa", "1 1", "-", "1e-16383", "1e131072", "00012.3400", "1_0"],
    "bool": ["", "o", "tru e", "2", "truee", "nope"],
    "date": ["", "2023-02-29", "2024-13-01", "2024-00-10", "0000-01-01", "5874898-01-01", "4714-11-23 BC", "20240229",
             "240229", "Feb 29, 2024", "29-Feb-2024", "2/29/2024", "2/29/24", "29/2/2024", "2024.060", "2024-060", "J2451545",
             "J-1", "y2001m02d04", "2024-02-29 10:11:12", "2024-02-29 25:00", "2024-02-29 BC AD", "24-Feb-29", "1-2-3",
             "01-02-70", "01-02-69", "0099-1-1", "99-1-1", "Monday, January 5, 2020", "5 January 2020 BC", "2020 jan 5",
             "jan 5 20", "infinity BC", "+infinity", "2020-1", "1", "12345", "123456", "1234567", "99999999990101",
             "2020-01-01 12", "2020-01-01 epoch", "on 2020-01-01", "sept 3 2020", "julian 2451545", "2020-01-01-02",
             "2020/01-02", "2020-01-01x", "x2020", "1.2.2020", "2020.01.02", "2020-001", "2020-366", "2021-366", "2020-367"],
    "timestamp": ["", "2024-02-29 12:60", "2024-02-29 12:30:61", "2024-02-29 12:30:60", "2024-02-29 24:00:01",
                  "2024-02-29 12:30:00.9999999", "2024-02-29 23:59:59.9999995", "2024-02-29 12:30:00.0000005",
                  "2024-02-29T12:30:00.0000015", "20240229T123456", "20240229 1234", "20240229T123456.5-08", "2024-02-29 12",
                  "2024-02-29 13 pm", "2024-02-29 01:00 pm", "2024-02-29 12:00 am", "12:30 2024-02-29", "2024-02-29 30.5",
                  "2024-02-29 12:30:00 utc", "2024-02-29 12:30:00+16", "2024-02-29 12:30:00+05:60", "2024-02-29 12:30 +5 BC",
                  "294276-12-31 24:00", "294277-01-01", "4714-11-23 23:59 BC", "J2451545.5", "J 2451545 12:00", "allballs",
                  "2020-01-01 allballs", "2020-01-01 12:30.5", "2020-01-01 1:2:3", "2020-01-01 t 010203", "2020-01-01t1:2",
                  "2020-01-01 12:30:00 12:30:00", "2020-01-01 2020-01-02", "y2020m1d2 h3 mm4 s5.5", "2020-01-01 12:",
                  "Jan 5 12:00:00 2020 UTC", "Sun Jan 5 12:00:00 GMT 2020", "Sat Jan 05 2020", "2020-01-01 12:30:00.1.2",
                  "2020-01-01 12:30 +5:30:15", "2020-01-01 12:30 +0530", "2020-01-01 12:30 -530", "2020-01-01 12:30+1234567",
                  "2020-01-01 12:30 + 5", "2020-01-01, 12:30;", "(2020-01-01)", "2020-01-01 12:30 z", "2020-01-01 12:30 +5-3",
                  "\u00e42020-01-01", "2020-01-01 12:30 dst", "2020-01-01 12:30 gmt dst", "2020-01-01 h12", "infinity 2020-01-01",
                  "2020-01-01 99999999999:00", "2020-01-01 -12:30", "2020-01-01 5", "010203 2020-01-01", "2020-01-01 01020"],
    "uuid": ["", "{", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ", "g" * 32,
             "a0-eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11-", "{" + "0" * 32],
    "bytea": ["\\", "\\x0", "\\xgg", "\\400", "\\08", "a\\", "\\x0 0", "\\X00"],
}
MALFORMED["timestamptz"] = MALFORMED["timestamp"]
# What dates are made of, without the names of zones and of days that move.
DATE_PIECES = ["2020", "2024", "0044", "1", "2", "5", "12", "13", "29", "31", "60", "99", "366", "020", "2451545", "20240229",
               "240229", "123456", "1234", "0.5", "1.5", "12:30", "23:59:59", "1:2:3.4567", "24:00", "25:00", "12:30:60.5",
               "2024-02-29", "2/29/2024", "29.2.2024", "2024-060", "5-feb-20", "feb", "March", "sept", "jan-5-2020", "mon",
               "Friday", "am", "PM", "bc", "AD", "t", "T", "z", "utc", "GMT", "+5", "-08", "+05:30", "-0930", "+15:59:59",
               "+16", "on", "at", "y", "m", "d", "h", "mm", "s", "j", "julian", "dow", "epoch", "infinity", "-infinity",
               "allballs", "dst", "BC BC", "2024-02-29 12:30", "2024-02-29", "2024-02-29T12:30:00", "1999-12-31 23:59:59.9"]
PIECES = ["a", "b", "c", "A", "B", "%", "_", "\\", "\\%", "\\_", "\\\\", "%%", "_%", "\u00e4", "\u20ac", "x", "#", " "]
# What regular expressions are made of, without what encrypted text does not have: back references, look-around.
ATOMS = ["a", "a", "b", "c", "x", "A", "\u00e4", "\u00c4", "\U0001f600", "_", " ", "-", ".", ".", "[ab]", "[^a]", "[a-c]", "[]a]", "[^]a]", "[a-]", "[-a]",
         "[--/]", "[a\\-c]", "[a\\]b]", "[[:alpha:]]", "[^[:space:]_]", "[[:punct:][:digit:]]", "[[:upper:]]", "[[:lower:]a]", "[[:word:]]", "[[:blank:]]",
         "[[:cntrl:]]", "[[:graph:]]", "[[:print:]]", "[[:xdigit:]]", "[[:ascii:]]", "[[:alnum:]]", "[[.a.]]", "[[.a.]-c]", "[[=a=]]", "[\\w-]", "[\\d\\s]", "[^\\W]",
         "[\\Sa]", "[^\\D]", "[\u00e0-\u00ff]", "[A-z]", "[\\x41-\\u005a]", "\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\.", "\\\\", "\\*", "\\[", "\\\u00e4", "\\n", "\\t",
         "\\x61", "\\u0061", "\\U00000061", "\\0141", "\\012", "\\e", "\\B", "\\b", "\\cA", "\\x", "\\q", "\\u12", "\\UFFFFFFFF", "{", "}", "]", "\n",
         "[b-a]", "[", "[a", "[[:x:]]", "[[:alpha:", "[\\A]", "[a-\\w]", "[a-b-c]", "[[..]]", "[[=]=]]", "#", "\\x0000000041", "\\79", "\\400"]
ANCHORS = ["^", "$", "\\A", "\\Z", "\\m", "\\M", "\\y", "\\Y", "[[:<:]]", "[[:>:]]"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0,1}", "{1,}", "{0}", "{2,3}?", "{,2}", "{3,1}", "{256}", "{1", "{1x}", "{1}?", "**", "*+"]
OPTIONS = ["(?i)", "(?n)", "(?p)", "(?w)", "(?s)", "(?cn)", "(?q)", "***:", "***=", "***:(?i)", "***?", "***", "(?z)", "(?i"]
SIMILAR_PIECES = ["a", "b", "c", "%", "_", "|", "(", ")", "[ab]", "[^a]", "[]a]", "[^]a]", "[[:alpha:]]", "[_%]", "[\\]a]", "\\%", "\\_", "\\d", "*", "+", "?", "{2}", "^", "$",
                  ".", "\\", "\u00e4", "[\u00e4]", "\\\"", "\"", "#", "[#]]", "\u20ac", "[\u20ac]]"]
SUBJECTS = ["a", "a", "b", "c", "ab", "abc", "A", "B", "x", "_", " ", "-", ".", "1", "42", "\u00e4", "\u00c4", "\U0001f600", "\n", "\t", "]", "[", "\\", "*", "{", "^"]
LETTERS = ["a", "a", "b", " ", "\u00e4", "\u00e5", "\U0001f600"]


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
                 self.compare, self.concat, self.like, self.like, self.escape, self.regex, self.regex, self.regex, self.similar, self.interval, self.interval, self.substring, self.one_text, self.counted_text, self.padded_text, self.searched_text, self.searched_text, self.extract, self.extract, self.rounding, self.rounding, self.truncation, self.characters, self.digits, self.zoned, self.shown, self.shown, self.number, self.number, self.number, self.pairs,
                 self.aggregate, self.aggregate, self.aggregate, self.spread, self.decimals, self.decimals, self.odd_date]
        made = [*self.all_malformed(), *self.all_casts(), *self.all_extracts(), *self.all_intervals(), *self.all_anchors(), *self.large()]
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
        for ty in ["date", "timestamp", "timestamptz"]:
            for field in FIELDS:
                for text in EDGES[ty]:
                    yield f"extract({field} FROM {literal(text, ty)})", f"extract {field} {ty} {word(text)}"

    def all_intervals(self):
        """Every edge with every edge of intervals."""
        for ty in TIMES:
            for text in EDGES[ty]:
                for interval in INTERVALS:
                    yield self.interval_pair(self.choice(["add", "sub"]), ty, text, interval)

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
        ty = self.choice([*NUMBERS, *NUMBERS, "bool", "date", "text", "uuid"])
        text = self.value(ty)
        name = self.choice(["negate", "abs"])
        sql = f"- {literal(text, ty)}" if name == "negate" else f"abs({literal(text, ty)})"
        return sql, f"{name} {ty} {word(text)}"

    def compare(self):
        """The order; half of the time of a value and one near to it."""
        ty = self.choice([*TYPES, "numeric", "text"])
        a, b = self.value(ty), self.value(ty)
        if self.random.random() < 0.3:
            b = a + "0" if ty == "numeric" and "." in a and "e" not in a else a
        x, y = literal(a, ty), literal(b, ty)
        return f"CASE WHEN {x} < {y} THEN -1 WHEN {x} = {y} THEN 0 WHEN {x} > {y} THEN 1 END", f"compare {ty} {word(a)} {ty} {word(b)}"

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
        field, ty = self.choice(FIELDS), self.choice(["date", "timestamp", "timestamptz", "timestamp", "int4"])
        text = self.value(ty)
        if ty in TIMES and self.random.random() < 0.4:
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
        kind, ty = self.choice(AGGREGATES), self.choice([*TYPES, *NUMBERS, "numeric"])
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
