#!/usr/bin/env python3
"""PostgreSQL's own regression files, statement by statement, over plain columns and over encrypted ones, agree.

The files are read where tests/suites/fetch-build.sh keeps PostgreSQL's sources, of the version under test. Each statement is
rewritten (sealing.py) into candidates; the first one that the server can analyse runs, with its results decrypted, beside the
statement as it is: rows, their order and SQLSTATE must agree. What no candidate fits runs on neither side, and is counted with
the reason.
"""

import os
import pwd
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from sealing import candidates  # noqa: E402
from sqltext import statements  # noqa: E402

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)  # tests have another $HOME
SHARED = Path("/var/cache/pgseal")
CACHE = Path(os.environ.get("PGSEAL_CACHE") or (SHARED if SHARED.is_dir() else HOME / ".cache/pgseal"))
SOURCE = CACHE / "pg" / VERSION / "src/src/test/regress"
# The least number of statements that each file must have compared.
FILES = {"int4": 45, "int8": 75, "float4": 45, "float8": 70, "numeric": 550, "text": 3, "boolean": 38, "date": 160,
         "timestamp": 75, "timestamptz": 120, "interval": 100, "uuid": 20, "strings": 18, "select_distinct": 17, "aggregates": 65, "union": 55,
         "join": 180, "window": 190}
# Which of two rows with one date is the first depends on the sort.
TIES = re.compile(r"\bfirst_emp\b")
INFINITE = re.compile(r"infinity|-2147483648 months? -2147483648 days? -9223372036854775808 us|-178956970 years -8 months -2147483648 days -2562047788", re.I)
# PostgreSQL's create_index.sql makes these; without them some statements compare each row with each.
INDEXES = [("tenk1", "unique1"), ("tenk1", "unique2"), ("tenk1", "hundred"), ("onek", "unique1"), ("onek", "unique2"),
           ("tenk1", "thousand, tenthous")]
QUERIES = {"select", "insert", "update", "delete", "values", "with", "merge", "table", "("}
ON_BOTH = {"set", "reset", "begin", "start", "commit", "end", "rollback", "savepoint", "release", "analyze", "vacuum", "truncate", "drop"}
MADE = re.compile(r"create\s+(unique\s+)?(temp\s+|temporary\s+|unlogged\s+|global\s+|local\s+)*(table|index|view)\b", re.I)
# Times have no modifiers, and what a limit rounds is a computed value: columns have none on either side.
MODIFIER = re.compile(r"([(\s]\w+\s+(?:timestamp|numeric|timestamptz))\s*\([\d, ]+\)", re.I)
# A cell as PostgreSQL writes it, with a type byte.
CELL = re.compile(r"\\x[0-9a-f]{2}(09|0a|0b|0c|0d|0e|0f|10|11|12|13|14|39)[0-9a-f]{4}")
# "function lower(enc_text) does not exist", "operator does not exist: enc_int4 & enc_int4".
MISSING = re.compile(r"function ([\w.]+)\((.*)\) does not exist|operator does not exist: (.*)")
OFFERED = set("= <> < <= > >= + - * / || ~~ !~~ ~~* !~~* ~ ~* !~ !~* abs length char_length lower upper substring substr extract sum avg min max % ^ mod power "
              "initcap left right reverse repeat lpad rpad btrim ltrim rtrim position strpos replace split_part starts_with "
              "round trunc ceil ceiling floor date_part date_trunc to_char similar_to_escape stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp regr_slope regr_intercept regr_r2 regr_count regr_avgx regr_avgy "
              "regr_sxx regr_syy regr_sxy percentile_cont percentile_disc mode bool_and bool_or every string_agg".split())
NOT_OFFERED = [# The number of decimals is plain.
               ["round", "enc_decimal", "enc_int4"], ["trunc", "enc_decimal", "enc_int4"]]
REASONS = {"42804 42846 42725 42P18 42601": "the types of no candidate meet",
           "22": "PostgreSQL refuses a constant of it",
           "42P01 42703 42P07 42704": "it needs what was left out"}
FIELD, RECORD, MARK = "\x1f", "\x1e", "\x1d"


class Session:
    """A psql that answers statement by statement."""

    def __init__(self, cluster, schema, prologue=""):
        command = [cluster.pg / "psql", "-X", "-q", "-A", "-t"]
        environment = {**base_environment(), **cluster.environment, "PG_ABS_SRCDIR": str(SOURCE)}
        self.psql = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        settings = "\\set ON_ERROR_STOP 0\n\\set ON_ERROR_ROLLBACK on\n"
        settings += f"\\pset fieldsep '{FIELD}'\n\\pset recordsep '{RECORD}'\n\\pset null '<NULL>'\n"
        self.run(f"{prologue}{settings}SET search_path = {schema}, public;")

    def run(self, script):
        """Rows, SQLSTATE and message of the last statement of the script."""
        self.psql.stdin.write(f"{script}\n\\set s :SQLSTATE\n\\set m :LAST_ERROR_MESSAGE\nSELECT '{MARK}', :'s', :'m', '{MARK}';\n")
        self.psql.stdin.flush()
        said = ""
        while said.count(MARK) < 2:
            line = self.psql.stdout.readline()
            if not line:
                raise AssertionError(f"psql ended after {script[-2000:]}\n{said[-2000:]}")
            said += line
        rows, told, _ = said.split(MARK)
        _, state, message, _ = told.split(FIELD)
        rows = rows.rstrip("\n")
        return rows.split(RECORD) if rows else [], state, message

    def close(self):
        self.psql.kill()
        self.psql.communicate()


class Left(Exception):
    """A statement is left out, for this reason."""


def names(found):
    """The words of a statement."""
    return {token.text.lower().strip('"') for token in found}


def opened(column, ty):
    """A column of a result, decrypted."""
    if ty.startswith("enc_") and ty.endswith("[]"):
        inner = f"ARRAY(SELECT encdb.decrypt(x) FROM unnest({column}) WITH ORDINALITY u(x, n) ORDER BY n)"
        return f"CASE WHEN {column} IS NOT NULL THEN {inner} END"
    return f"encdb.decrypt({column})" if ty.startswith("enc_") else column


def reason(state, message):
    """Why no candidate fits; a refusal that no reason explains is a failure."""
    if state == "42883" and (missing := MISSING.match(message)):
        words = (missing[2] or missing[3]).replace(",", "").split()
        name = missing[1] or next(word for word in words if not word[0].isalpha())
        of_cells = all(word.startswith("enc_") for word in words if word != name)
        is_offered = name in OFFERED and words not in NOT_OFFERED and [name, *words] not in NOT_OFFERED
        return f"UNEXPLAINED {message}" if is_offered and of_cells else f"not offered: {name}"
    if message.startswith("RANGE with offset") and message.endswith("enc_interval"):
        return "there are no frames of intervals by a distance"
    for states, why in REASONS.items():
        if state in states.split() or state[:2] in states.split():
            return why
    return f"UNEXPLAINED {state} {message}"


class Pair:
    """The two sides, and what was counted of a file."""

    def __init__(self, cluster, opening):
        cluster.psql("CREATE SCHEMA plain; CREATE SCHEMA sealed;")
        self.plain = Session(cluster, "plain")
        self.sealed = Session(cluster, "sealed", opening)
        self.encrypted = set()  # relations with encrypted columns
        self.begin()

    def begin(self):
        """Begins a file."""
        self.compared, self.left, self.wrong = 0, Counter(), []

    def close(self):
        self.plain.close()
        self.sealed.close()

    def take(self, found):
        """One statement of a file."""
        try:
            self.dispatch(found)
        except Left as left:
            self.left[str(left)] += 1

    def dispatch(self, found):
        text = "".join(token.text for token in found)
        first = found[0].text.lower() if found else ""
        if found[-1:] and found[-1].kind == "psql":
            self.command(text, found)
        elif first == "copy":
            self.copy(text, found)
        elif MADE.match(text):
            self.make(found, text)
        elif first in ON_BOTH:
            self.both(text)
        elif first in QUERIES:
            self.query(found, text)
        elif found:
            raise Left(f"{first.upper()} is no query")

    def command(self, text, found):
        if len(found) > 1 or not re.match(r"\\(set|getenv)\b", text):
            raise Left("a command of psql")
        self.plain.run(text)

    def both(self, text):
        if re.search(r"search_path|\brole\b|authorization|restart", text, re.I):
            raise Left("roles and search paths")
        state = self.sealed.run(text + ";")[1]
        if state != "00000":
            raise Left(f"{text.split()[0].upper()} on what was left out")
        self.plain.run(text + ";")

    def copy(self, text, found):
        """Data for a table: the sealed one gets it from the plain one."""
        data = found[-1].text if found[-1].kind == "data" else ""
        text = "".join(token.text for token in found if token.kind != "data")
        if not re.search(r"\bfrom\b", text, re.I) or self.plain.run(f"{text};{data}")[1] != "00000":
            raise Left("COPY")
        table = found[2].text
        self.sealed.run(f"""SELECT format('INSERT INTO sealed.{table} SELECT %s FROM plain.{table}', string_agg(
            CASE WHEN t LIKE 'enc%' THEN format('encdb.%s_encrypt(%I)', t, attname) ELSE quote_ident(attname) END, ', ' ORDER BY attnum))
            FROM pg_attribute, format_type(atttypid, NULL) t WHERE attrelid = 'sealed.{table}'::regclass AND attnum > 0 \\gexec""")

    def make(self, found, text):
        """A table, an index or a view."""
        for candidate in candidates(found, parameters=False):
            _, state, message = self.sealed.run(candidate.text + ";")
            if state == "00000":
                self.plain.run(text + ";")
                return self.look()
        raise Left(reason(state, message))

    def look(self):
        """Learns which relations have encrypted columns."""
        self.encrypted = set(self.sealed.run("SELECT DISTINCT lower(relname) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid"
                                             " JOIN pg_type t ON t.oid = atttypid WHERE typname LIKE 'enc\\_%';")[0])

    def query(self, found, text):
        if TIES.search(text):
            raise Left("it tells equal rows by their places")
        candidate, types = self.analysed(found, text)
        self.prepare(candidate, types)
        parameters = self.sealed.run("SELECT unnest(parameter_types) FROM pg_prepared_statements WHERE name = 's';")[0]
        if not ("enc_" in candidate.text or names(found) & self.encrypted or any("enc_" in ty for ty in [*types, *parameters])):
            raise Left("nothing in it is encrypted")
        values = [f"encdb.{ty}_encrypt({value})" if ty.startswith("enc_") else value for ty, value in zip(parameters, candidate.parameters)]
        self.compare(found, text, "s" + (f"({', '.join(values)})" if values else ""), candidate.text)

    def analysed(self, found, text):
        """The first candidate that is well-formed, and the types of its columns."""
        if "array[[" in text:
            raise Left("arrays of two dimensions")
        _, state, _ = self.plain.run(f"{text} \\gdesc")
        if not state.startswith(("00", "22")):
            raise Left("PostgreSQL refuses the plain statement, too")
        refused, words = None, names(found)
        for candidate in candidates(found):
            if candidate.bare and words & self.encrypted:
                continue
            rows, state, message = self.sealed.run(f"{candidate.text} \\gdesc")
            if state == "00000":
                return candidate, [row.split(FIELD)[-1] for row in rows if FIELD in row]
            refused = refused or reason(state, message)
        raise Left(refused or "it casts a cell to text")

    def prepare(self, candidate, types):
        columns = [f"c{n}" for n in range(len(types))]
        text = candidate.text
        if columns:
            shown = map(opened, columns, types)
            text = f"WITH s({', '.join(columns)}) AS ({text}) SELECT {', '.join(shown)} FROM s"
        _, state, message = self.sealed.run(f"DEALLOCATE ALL; PREPARE s AS {text};")
        if state != "00000":
            raise Left(reason(state, message))

    def compare(self, found, text, call, candidate):
        plain = self.plain.run(f"{text};")[:2]
        sealed = self.sealed.run(f"EXECUTE {call};")
        if sealed[1] == "PE028" or CELL.search(f"{sealed}") and not CELL.search(f"{plain}"):
            raise Left("it casts a cell to text")
        if sealed[2].startswith("a value of an encrypted type is a cell"):
            raise Left("it casts a plain text to a cell")
        if sealed[2].startswith("to_char of encrypted numbers has no currency sign"):
            raise Left("its format has a currency sign")
        if sealed[2] == "interval out of range" and INFINITE.search(text):
            raise Left("its interval is infinite, to PostgreSQL since 17")
        self.compared += 1
        ordered = any(token.is_word("order") for token in found)
        one, other = (rows if ordered else sorted(rows) for rows in (plain[0], sealed[0]))
        if (one, plain[1]) != (other, sealed[1]):
            self.wrong.append((text, candidate, plain[1], sealed[1:], one[:5], other[:5], len(one), len(other)))


class Files(Confidential):
    def test_inline(self):
        self.compare("inline")

    def test_isolated(self):
        self.compare("isolated", self.evaluator().socket)

    def compare(self, form, socket=""):
        server = self.server(form=form, socket=socket)
        self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;")
        pair = Pair(server, self.opening())
        self.addCleanup(pair.close)
        self.replay(pair, "test_setup", 4)
        pair.both("; ".join(f"CREATE INDEX ON {table} ({column})" for table, column in INDEXES))
        for name, least in FILES.items():
            with self.subTest(file=name):
                self.replay(pair, name, least)

    def replay(self, pair, name, least):
        """One file: all that was compared agrees, and what was left out has a reason."""
        pair.begin()
        for found in statements(MODIFIER.sub(r"\1", (SOURCE / "sql" / f"{name}.sql").read_text())):
            pair.take(found)
        print(f"{name}: {pair.compared} compared, {sum(pair.left.values())} left out", flush=True)
        for reason, count in pair.left.most_common():
            print(f"    {count:4} {reason}")
        self.assertEqual(pair.wrong[:3], [], f"{len(pair.wrong)} of {pair.compared} differ")
        self.assertEqual([why for why in pair.left if why.startswith("UNEXPLAINED")], [])
        self.assertGreaterEqual(pair.compared, least)


if __name__ == "__main__":
    main(__file__, TOOLS)
