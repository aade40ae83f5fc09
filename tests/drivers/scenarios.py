"""The scenarios that every driver runs: one list for all languages.

A scenario is a list of steps. A driver's program reads them as JSON, does what each says with its driver's own means, and
prints what came back. `Step.do` is one of these:

    execute     the statement with its parameters; rows, a count, or an error comes back
    many        the statement for each row of `batch`, as the driver sends many at once; the count of rows
    together    the statements of `batch`, in one flight if the driver can; the rows of each, one list behind the other
    again       the statement for each row of `batch`, prepared once if the driver can; the rows, one list behind the other
    cursor      the statement, its rows fetched two at a time
    begin, commit, rollback, savepoint, release, back   transactions; the last three have a name
    cancel      the statement, which runs long, is cancelled from outside
    copy_in     the rows of `batch` for the statement, which is COPY; those of COPY's text are in `text`
    copy_out    the text that the statement gives, as one value

Values are text with a type of PostgreSQL's, {"repeat": text, "times": n}, a list of values, or null; programs make native values
of them, and print each value of a row as the name of its native type and a text: numbers in digits, bytes in hexadecimal digits,
times in ISO 8601. In place of a text of more than 4096 bytes they print `sha256:` and its digest.
"""

import json
import secrets
from dataclasses import dataclass, field

LARGE = 5 << 20  # bytes of a large value; the long form has another
SECRET_INT = "1717171717"
SECRET_TOO_LARGE = "3171717171"
SECRET_BIG = "8070605040302010901"
SECRET_NUMERIC = "98765432109876543210.123456789"
SECRET_DATE = "1815-12-10"
SECRET_UUID = "5ec7e7a1-0b5e-4d1e-9a3c-5ec7e75ec7e7"


@dataclass
class Step:
    """One thing that a driver does."""
    name: str
    do: str
    sql: str = ""
    types: list = field(default_factory=list)  # of the parameters
    values: list = field(default_factory=list)
    batch: list = field(default_factory=list)
    gives: list = None  # the types of the rows
    rows: list = None
    error: str = None
    count: int = None
    text: str = ""


@dataclass
class Words:
    """Words that show where a value is in clear: `mark` begins the secret ones, `plain` is in columns that are plain."""
    mark: str = field(default_factory=lambda: "s" + secrets.token_hex(6))
    plain: str = field(default_factory=lambda: "p" + secrets.token_hex(6))

    def texts(self):
        """What must be nowhere: text, and the digits of bytes."""
        digits = [self.mark.encode().hex(), SECRET_UUID.replace("-", "")]
        return [self.mark, *digits, SECRET_INT, SECRET_TOO_LARGE, SECRET_BIG, SECRET_NUMERIC.split(".")[0], SECRET_DATE, SECRET_UUID]

    def binaries(self):
        """The same as the protocol has it, each behind its length."""
        values = [int(SECRET_INT).to_bytes(4), int(SECRET_BIG).to_bytes(8), bytes.fromhex(SECRET_UUID.replace("-", ""))]
        return [len(value).to_bytes(4) + value for value in values]


def as_json(scenarios):
    """The list, as programs read it."""
    return json.dumps([{"name": name, "steps": [vars(step) for step in steps]} for name, steps in scenarios])


def execute(name, sql, types="", values=(), **result):
    if "rows" in result:
        result["gives"] = result["gives"].split()
    return Step(name, "execute", sql, types.split(), list(values), **result)


def of_batch(name, do, sql, types, batch, **result):
    if "rows" in result:
        result["gives"] = result["gives"].split()
    return Step(name, do, sql, types.split(), batch=[list(row) for row in batch], **result)


def do(what, name=""):
    return Step(name or what, what, name)


def all_scenarios(words, large=LARGE):
    """The list, with these words and large values of this size."""
    people = people_of(words)
    return [("tables", tables()), ("insert", inserts(words, people)), ("read", reads(words, people)),
            ("combine", combined(words, people)), ("change", changes(words)), ("nulls", nulls(words)),
            ("types", types(words)), ("ranges", ranges()), ("transactions", transactions(words)),
            ("errors", errors(words)), ("prepared", prepared(words, people)), ("copy", copied(words)),
            ("large", large_values(words, large)),
            ("cancelled", cancelled(words))]


def people_of(words):
    """id, name, age, paid, born, note."""
    mark, plain = words.mark, words.plain
    return [["1", f"{mark}Ada", "36", "10.50", SECRET_DATE, plain], ["2", f"{mark}Grace", "85", "0.01", "1906-12-09", plain],
            ["3", f"{mark}Alan", "41", SECRET_NUMERIC, "1912-06-23", "x"],
            ["4", f"{mark}O'Hara \"q\" \\ %", "0", "-1.5", "2000-02-29", "x"],
            ["5", f"{mark}Zoë \u20ac \U0001f600", SECRET_INT, "0.20", "1999-12-31", "it's"],
            ["6", f"{mark}Barbara", "-7", "3", "1939-11-07", "x"], ["7", f"{mark}Ken_", "8", "3.0", "1943-02-04", "x"]]


def tables():
    return [execute("person", "CREATE TABLE person (id int PRIMARY KEY, name enc_text UNIQUE, age enc_int4, paid enc_decimal, "
                    "born enc_date, note text)"),
            execute("pet", "CREATE TABLE pet (id int PRIMARY KEY, owner enc_text, nick enc_text NOT NULL, big enc_int8)"),
            execute("index", "CREATE INDEX pet_nick ON pet (nick)"),
            execute("sample", "CREATE TABLE sample (id int PRIMARY KEY, i enc_int4, l enc_int8, n enc_decimal, f enc_float4, g enc_float8, "
                    "t enc_text, b enc_bool, d enc_date, s enc_timestamp, z enc_timestamptz, u enc_uuid, y enc_bytea)"),
            execute("arrays", "CREATE TABLE lists (id int PRIMARY KEY, t enc_text[], i enc_int4[])"),
            execute("blob", "CREATE TABLE blob (id int PRIMARY KEY, t enc_text, y enc_bytea)")]


PERSON = "int4 text int4 numeric date text"
INSERT = "INSERT INTO person (id, name, age, paid, born, note) VALUES ($1, $2, $3, $4, $5, $6)"


def inserts(words, people):
    return [execute("one", INSERT, PERSON, people[0], count=1),
            execute("returning", f"{INSERT} RETURNING id, name, paid", PERSON, people[1], gives="int4 text numeric",
                    rows=[[people[1][at] for at in (0, 1, 3)]]),
            of_batch("many", "many", INSERT, PERSON, people[2:5], count=3),
            execute("rows", "INSERT INTO person (id, name, age, paid, born, note) VALUES ($1, $2, $3, $4, $5, $6), "
                    "($7, $8, $9, $10, $11, $12)", f"{PERSON} {PERSON}", people[5] + people[6], count=2),
            of_batch("pets", "many", "INSERT INTO pet (id, owner, nick, big) VALUES ($1, $2, $3, $4)", "int4 text text int8",
                     [["1", people[0][1], f"{words.mark}Rex", SECRET_BIG], ["2", people[2][1], f"{words.mark}Tom", "-1"],
                      ["3", people[2][1], f"{words.mark}Kit", "0"], ["4", None, f"{words.mark}Stray", None]], count=4)]


def reads(words, people):
    ids = lambda *ids: {"gives": "int4", "rows": [[str(id)] for id in ids]}  # noqa: E731
    mark = words.mark
    return [execute("all", "SELECT id, name, age, paid, born, note FROM person ORDER BY id", gives=PERSON, rows=people),
            execute("equal", "SELECT id, name, age FROM person WHERE name = $1 AND note = $2", "text text", [people[0][1], words.plain],
                    gives="int4 text int4", rows=[people[0][:3]]),
            execute("equal quoted", "SELECT id, name FROM person WHERE name = $1", "text", [people[3][1]], gives="int4 text",
                    rows=[people[3][:2]]),
            execute("equal number", "SELECT id FROM person WHERE age = $1 AND id > $2", "int4 int4", [SECRET_INT, "0"], **ids(5)),
            execute("equal numeric", "SELECT id FROM person WHERE paid = $1", "numeric", [SECRET_NUMERIC], **ids(3)),
            execute("equal date", "SELECT id FROM person WHERE born = $1", "date", [SECRET_DATE], **ids(1)),
            execute("in", "SELECT id FROM person WHERE name IN ($1, $2, $3) ORDER BY id", "text text text",
                    [people[2][1], people[0][1], mark], **ids(1, 3)),
            execute("any", "SELECT id FROM person WHERE name = ANY($1) ORDER BY id", "text[]", [[people[2][1], people[4][1]]], **ids(3, 5)),
            execute("any number", "SELECT id FROM person WHERE age = ANY($1) ORDER BY id", "int4[]", [["36", "41", "5"]], **ids(1, 3)),
            execute("between", "SELECT id FROM person WHERE born BETWEEN $1 AND $2 ORDER BY id", "date date",
                    ["1900-01-01", "1939-11-07"], **ids(2, 3, 6)),
            execute("less", "SELECT id FROM person WHERE age < $1 AND paid >= $2 ORDER BY id", "int4 numeric", ["41", "3"], **ids(1, 6, 7)),
            execute("like", "SELECT id FROM person WHERE name LIKE $1 ORDER BY id", "text", [f"{mark}A%"], **ids(1, 3)),
            execute("like escaped", "SELECT id FROM person WHERE name LIKE $1", "text", [f"{mark}%\\_"], **ids(7)),
            execute("not like", "SELECT id FROM person WHERE name NOT LIKE $1 AND id < $2", "text int4", [f"{mark}A%", "4"], **ids(2)),
            execute("starts with", "SELECT id FROM person WHERE name LIKE $1 || '%' ESCAPE '/' ORDER BY id", "text", [f"{mark}A"],
                    **ids(1, 3)),
            execute("contains", "SELECT id FROM person WHERE name LIKE '%' || $1 || '%' ESCAPE '/'", "text",
                    ["Hara \"q\" \\ /%"], **ids(4)),
            execute("ends with", "SELECT id FROM person WHERE name LIKE $1 ESCAPE '\\'", "text", ["%\\_"], **ids(7)),
            execute("ilike", "SELECT id FROM person WHERE name ILIKE $1", "text", [f"{mark}gra%"], **ids(2)),
            execute("function", "SELECT id FROM person WHERE lower(name) = $1", "text", [f"{mark}ada"], **ids(1)),
            execute("exists", "SELECT id FROM person p WHERE EXISTS (SELECT 1 FROM pet WHERE owner = p.name AND nick = $1)", "text",
                    [f"{mark}Kit"], **ids(3)),
            execute("nothing", "SELECT id, name FROM person WHERE name = $1", "text", [f"{mark}Nobody"], gives="int4 text", rows=[])]


def combined(words, people):
    mark = words.mark
    name = lambda *places: [[people[at][1]] for at in places]  # noqa: E731
    return [execute("join", "SELECT p.id, p.name, q.nick, q.big FROM person p JOIN pet q ON q.owner = p.name WHERE q.nick <> $1 "
                    "ORDER BY p.id, q.id", "text", [f"{mark}Tom"], gives="int4 text text int8",
                    rows=[["1", people[0][1], f"{mark}Rex", SECRET_BIG], ["3", people[2][1], f"{mark}Kit", "0"]]),
            execute("left join", "SELECT p.id, q.nick FROM person p LEFT JOIN pet q ON q.owner = p.name WHERE p.id < $1 "
                    "ORDER BY p.id, q.id", "int4", ["4"], gives="int4 text",
                    rows=[["1", f"{mark}Rex"], ["2", None], ["3", f"{mark}Tom"], ["3", f"{mark}Kit"]]),
            execute("aggregates", "SELECT count(*), count(name), sum(age), min(name), max(born) FROM person WHERE id <= $1", "int4", ["4"],
                    gives="int8 int8 int8 text date", rows=[["4", "4", "162", people[0][1], "2000-02-29"]]),
            execute("sum of numeric", "SELECT sum(paid) FROM person WHERE paid > $1", "numeric", ["1"], gives="numeric",
                    rows=[["98765432109876543226.623456789"]]),
            execute("group", "SELECT owner, count(*) FROM pet GROUP BY owner HAVING count(*) > $1", "int8", ["1"], gives="text int8",
                    rows=[[people[2][1], "2"]]),
            execute("group by plain", "SELECT note, max(age) FROM person WHERE note <> $1 GROUP BY note ORDER BY note", "text",
                    [words.plain], gives="text int4", rows=[["it's", SECRET_INT], ["x", "41"]]),
            execute("order", "SELECT name FROM person ORDER BY name DESC LIMIT $1 OFFSET $2", "int8 int8", ["3", "1"], gives="text",
                    rows=name(3, 6, 1)),
            execute("order by number", "SELECT id FROM person ORDER BY age, id LIMIT 3", gives="int4", rows=[["6"], ["4"], ["7"]]),
            execute("distinct", "SELECT DISTINCT owner FROM pet WHERE owner IS NOT NULL ORDER BY owner", gives="text", rows=name(0, 2)),
            execute("union", "SELECT name FROM person WHERE id = $1 UNION ALL SELECT nick FROM pet WHERE id = $2", "int4 int4", ["1", "1"],
                    gives="text", rows=[[people[0][1]], [f"{mark}Rex"]]),
            Step("cursor", "cursor", "SELECT id, name FROM person WHERE name > $1 ORDER BY id", ["text"], [mark],
                 gives=["int4", "text"], rows=[row[:2] for row in people]),
            of_batch("together", "together", "SELECT name, age FROM person WHERE name = $1", "text", [[row[1]] for row in people],
                     gives="text int4", rows=[row[1:3] for row in people])]


def changes(words):
    mark = words.mark
    return [execute("update", "UPDATE person SET name = $1, note = $2 WHERE name = $3", "text text text",
                    [f"{mark}Ada L", words.plain, f"{mark}Ada"], count=1),
            execute("computed", "UPDATE person SET age = age + $1 WHERE id = $2 RETURNING age, name", "int4 int4", ["1", "1"],
                    gives="int4 text", rows=[["37", f"{mark}Ada L"]]),
            execute("put back", "UPDATE person SET name = $1, age = $2 WHERE id = $3", "text int4 int4",
                    [f"{mark}Ada", "36", "1"], count=1),
            do("begin"), execute("locked", "SELECT id, name FROM person WHERE name = $1 FOR UPDATE", "text", [f"{mark}Ada"],
                                 gives="int4 text", rows=[["1", f"{mark}Ada"]]), do("commit"),
            execute("created", "SELECT id, name FROM person WHERE name = $1", "text", [f"{mark}Alan"], gives="int4 text",
                    rows=[["3", f"{mark}Alan"]]),
            execute("case", "UPDATE person SET age = CASE id WHEN 3 THEN $1 WHEN 4 THEN $2 END WHERE id IN (3, 4)", "int4 int4",
                    ["41", "0"], count=2),
            execute("conflict", "INSERT INTO person (id, name, age) VALUES ($1, $2, $3) ON CONFLICT (id) "
                    "DO UPDATE SET name = excluded.name RETURNING name, age", "int4 text int4", ["2", f"{mark}Grace H", "1"],
                    gives="text int4", rows=[[f"{mark}Grace H", "85"]]),
            execute("conflict ignored", "INSERT INTO person (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", "int4 text",
                    ["9", f"{mark}Grace H"], count=0),
            of_batch("update many", "many", "UPDATE pet SET nick = $1 WHERE nick = $2", "text text",
                     [[f"{mark}Rex2", f"{mark}Rex"], [f"{mark}Tom2", f"{mark}Tom"]], count=2),
            execute("delete", "DELETE FROM pet WHERE nick = $1 RETURNING id, owner", "text", [f"{mark}Stray"], gives="int4 text",
                    rows=[["4", None]])]


def nulls(words):
    mark = words.mark
    return [execute("insert", "INSERT INTO person (id, name, age, paid, born, note) VALUES ($1, $2, $3, $4, $5, $6)", PERSON,
                    ["20", None, None, None, None, None], count=1),
            execute("is null", "SELECT id, name, age, paid, born, note FROM person WHERE name IS NULL", gives=PERSON,
                    rows=[["20", None, None, None, None, None]]),
            execute("coalesce", "SELECT coalesce(name, $1) FROM person WHERE id = $2", "text int4", [f"{mark}None", "20"], gives="text",
                    rows=[[f"{mark}None"]]),
            execute("to null", "UPDATE person SET paid = NULL, note = $1 WHERE id = $2 RETURNING paid", "text int4", ["y", "7"],
                    gives="numeric", rows=[[None]]),
            execute("count", "SELECT count(*), count(paid), count(name) FROM person", gives="int8 int8 int8", rows=[["8", "6", "7"]]),
            execute("delete", "DELETE FROM person WHERE name IS NULL", count=1)]


SAMPLE = "int4 int4 int8 numeric float4 float8 text bool date timestamp timestamptz uuid bytea"
COLUMNS = "id, i, l, n, f, g, t, b, d, s, z, u, y"


def types(words):
    mark = words.mark
    rows = [["1", "-2147483648", "-9223372036854775808", "-" + "9" * 60 + "." + "1" * 40, "-3.4028235e+38", "-1.7976931348623157e+308",
             "", "false", "0001-01-01", "0001-01-01T00:00:00", "0001-01-02T00:00:00+00:00", "00000000-0000-0000-0000-000000000000", ""],
            ["2", "2147483647", "9223372036854775807", "0." + "0" * 50 + "1", "1.1754944e-38", "5e-324",
             mark + "\t\n' \" \\ %s $1 :x ? ü \U0001f600",
             "true", "9999-12-31", "9999-12-31T23:59:59.999999", "9999-12-30T23:59:59.999999+00:00", "ffffffff-ffff-ffff-ffff-ffffffffffff",
             mark.encode().hex() + "00ff5c27"],
            ["3", SECRET_INT, SECRET_BIG, SECRET_NUMERIC, "0.5", "0.1", mark, "true", SECRET_DATE, "2026-01-02T03:04:05.123456",
             "2026-01-02T03:04:05.123456+05:30", SECRET_UUID, "00"],
            ["4", "0", "0", "1.500", "0", "-2.5e-07", " ", "false", "2000-02-29", "1970-01-01T00:00:00", "1969-12-31T19:00:00-05:00",
             "11111111-2222-3333-4444-555555555555", "5c78"]]
    lists = [["1", [mark, None, 'a "b" \\ {c,d}', "", "NULL"], ["1", None, "-2147483648"]], ["2", [], []], ["3", None, [SECRET_INT]]]
    of_lists = "int4 text[] int4[]"
    numbered = ", ".join(f"${at}" for at in range(1, 14))
    return [of_batch("insert", "many", f"INSERT INTO sample ({COLUMNS}) VALUES ({numbered})", SAMPLE, rows, count=4),
            execute("select", f"SELECT {COLUMNS} FROM sample ORDER BY id", gives=SAMPLE, rows=rows),
            *(execute(f"equal {column}", f"SELECT id FROM sample WHERE {column} = $1 AND id = $2", f"{type} int4", [rows[2][at], "3"],
                      gives="int4", rows=[["3"]])
              for at, (column, type) in enumerate(zip(COLUMNS.split(", "), SAMPLE.split())) if at > 0),
            of_batch("insert lists", "many", "INSERT INTO lists (id, t, i) VALUES ($1, $2, $3)", of_lists, lists, count=3),
            execute("select lists", "SELECT id, t, i FROM lists ORDER BY id", gives=of_lists, rows=lists),
            execute("element", "SELECT id, t[1] FROM lists WHERE $1 = ANY(t)", "text", [mark], gives="int4 text", rows=[["1", mark]])]


def ranges():
    return [execute("too large", "UPDATE person SET age = $1 WHERE id = $2", "int8 int4", [SECRET_TOO_LARGE, "1"], error="22003"),
            execute("overflow", "UPDATE person SET age = age + $1 WHERE id = $2", "int4 int4", ["2147483647", "1"], error="22003"),
            execute("unchanged", "SELECT age FROM person WHERE id = $1", "int4", ["1"], gives="int4", rows=[["36"]])]


def transactions(words):
    insert = lambda name, id: execute(name, "INSERT INTO person (id, name) VALUES ($1, $2)", "int4 text",  # noqa: E731
                                      [id, f"{words.mark}T{id}"], count=1)
    seen = lambda name, *ids: execute(name, "SELECT id, name FROM person WHERE name LIKE $1 ORDER BY id", "text",  # noqa: E731
                                      [f"{words.mark}T%"], gives="int4 text", rows=[[id, f"{words.mark}T{id}"] for id in ids])
    return [do("begin"), insert("first", "30"), seen("seen inside", "30"), do("rollback"), seen("rolled back"),
            do("begin"), insert("second", "31"), do("savepoint", "a"), insert("third", "32"), do("back", "a"),
            seen("back at the savepoint", "31"), do("savepoint", "b"), insert("fourth", "33"), do("release", "b"), do("commit"),
            seen("committed", "31", "33"), execute("clean", "DELETE FROM person WHERE id > $1", "int4", ["29"], count=2)]


def errors(words):
    mark = words.mark
    twice = lambda name: execute(name, "INSERT INTO person (id, name) VALUES ($1, $2)", "int4 text", ["40", f"{mark}Alan"],  # noqa: E731
                                 error="23505")
    goes_on = lambda name: execute(name, "SELECT id FROM person WHERE name = $1", "text", [f"{mark}Alan"], gives="int4",  # noqa: E731
                                   rows=[["3"]])
    refused = lambda name: execute(name, "SELECT id FROM person WHERE name = textcat($1::text, $2::text)", "text text",  # noqa: E731
                                   [mark, "Alan"], error="0A000")
    return [twice("unique"), goes_on("after unique"), refused("refused"), goes_on("after refused"),
            execute("no such column", "SELECT nothing FROM person WHERE name = $1", "text", [mark], error="42703"),
            goes_on("after no column"),
            do("begin"), twice("unique inside"), execute("failed", "SELECT 1 FROM person WHERE name = $1", "text", [mark], error="25P02"),
            do("rollback"), goes_on("after rollback"),
            do("begin"), do("savepoint", "c"), refused("refused inside"), do("back", "c"), goes_on("after the savepoint"), do("commit")]


def prepared(words, people):
    again = people + people
    return [of_batch("select", "again", "SELECT id, name, age FROM person WHERE name = $1 AND id < $2", "text int4",
                     [[row[1] if row[0] != "2" else f"{words.mark}Grace H", "100"] for row in again], gives="int4 text int4",
                     rows=[[row[0], row[1] if row[0] != "2" else f"{words.mark}Grace H", row[2]] for row in again]),
            of_batch("update", "again", "UPDATE person SET age = $1 WHERE name = $2 RETURNING age", "int4 text",
                     [[str(at), f"{words.mark}Alan"] for at in range(9)], gives="int4", rows=[[str(at)] for at in range(9)]),
            execute("new column", "ALTER TABLE person ADD city enc_text"),
            execute("with it", "UPDATE person SET city = $1 WHERE name = $2 RETURNING city", "text text",
                    [f"{words.mark}London", f"{words.mark}Ada"], gives="text", rows=[[f"{words.mark}London"]])]


COPIED = "person (id, name, age, paid, born, note)"


def copied(words):
    mark, plain = words.mark, words.plain
    rows = [["101", f"{mark}\t\\ \n", SECRET_INT, SECRET_NUMERIC, SECRET_DATE, plain], ["102", None, None, None, None, None],
            ["103", f"{mark}Zo\u00eb", "-1", "0.10", "2000-01-01", "x"]]
    text = "".join("\t".join(copy_text(value) for value in row) + "\n" for row in rows)
    large = ["104", mark, SECRET_TOO_LARGE, "1", "2000-01-01", "x"]
    return [Step("in", "copy_in", f"COPY {COPIED} FROM STDIN", PERSON.split(), batch=rows, text=text, count=3),
            execute("rows", "SELECT id, name, age, paid, born, note FROM person WHERE id > $1 ORDER BY id", "int4", ["100"], gives=PERSON,
                    rows=rows),
            Step("out", "copy_out", "COPY (SELECT id, name, age, paid, born, note FROM person WHERE id > 100 ORDER BY id) TO STDOUT",
                 gives=["text"], rows=[[text]]),
            Step("too large", "copy_in", f"COPY {COPIED} FROM STDIN", PERSON.replace("text int4", "text int8").split(), batch=[large],
                 text="\t".join(large) + "\n", error="22003"),
            execute("clean", "DELETE FROM person WHERE id > $1", "int4", ["100"], count=3)]


def copy_text(value):
    """A value as the text format of COPY has it."""
    if value is None:
        return "\\N"
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def large_values(words, size):
    unit = words.mark + "0123456789abcde "
    times = size // len(unit)
    row = ["1", {"repeat": unit, "times": times}, {"repeat": unit.encode().hex(), "times": times}]
    return [execute("insert", "INSERT INTO blob (id, t, y) VALUES ($1, $2, $3)", "int4 text bytea", row, count=1),
            execute("select", "SELECT id, t, y FROM blob WHERE id = $1", "int4", ["1"], gives="int4 text bytea", rows=[row])]


def cancelled(words):
    sleeps = "SELECT id, pg_sleep(30) FROM person WHERE name = $1"
    name = [f"{words.mark}Alan"]
    return [execute("set", "SET statement_timeout = '200ms'"), execute("timeout", sleeps, "text", name, error="57014"),
            execute("reset", "RESET statement_timeout"), Step("cancel", "cancel", sleeps, ["text"], name, error="57014"),
            execute("goes on", "SELECT id FROM person WHERE name = $1", "text", name, gives="int4", rows=[["3"]])]
