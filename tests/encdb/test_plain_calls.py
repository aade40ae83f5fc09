#!/usr/bin/env python3
"""Statements on plain values mean what they meant before CREATE EXTENSION encdb, whose functions and operators have PostgreSQL's names.

An argument without a type, such as a literal in quotes, may fit a function of the extension as well as PostgreSQL's own, and then the
call is not unique. So each signature that PostgreSQL has under a name of the extension's is called with every choice of arguments
whose types are known, in a database with the extension and in one without.
"""

import itertools
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

MINE = """FROM pg_depend d JOIN {0} own ON own.oid = d.objid
    WHERE deptype = 'e' AND classid = '{0}'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'encdb')"""
CALLS = f"""
WITH own AS (SELECT DISTINCT proname {MINE.format('pg_proc')} AND pronamespace <> 'encdb'::regnamespace),
builtin AS (SELECT p.proname, string_to_array(oidvectortypes(proargtypes), ', ') AS types, pronargs FROM pg_proc p JOIN own USING (proname)
    WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a') AND pronargs BETWEEN 1 AND 4 AND prorettype <> 'internal'::regtype
    AND NOT EXISTS (SELECT FROM pg_aggregate WHERE aggfnoid = p.oid AND aggkind <> 'n') AND NOT 'internal'::regtype = ANY (proargtypes))
SELECT DISTINCT format('SELECT %I(%s)', proname, (SELECT string_agg(CASE WHEN known & (1 << (i - 1)) <> 0 AND types[i] !~ 'any'
    THEN 'NULL::' || types[i] ELSE 'NULL' END, ', ' ORDER BY i) FROM generate_series(1, pronargs) i))
FROM builtin, generate_series(0, (1 << pronargs) - 1) known ORDER BY 1
"""
OPERATORS = f"""
WITH own AS (SELECT DISTINCT oprname {MINE.format('pg_operator')}),
sides AS (SELECT oprname, oprleft, CASE WHEN known & 1 = 0 OR oprleft::regtype::text ~ '^any' THEN 'NULL' ELSE 'NULL::' || oprleft::regtype END AS l,
    CASE WHEN known & 2 = 0 OR oprright::regtype::text ~ '^any' THEN 'NULL' ELSE 'NULL::' || oprright::regtype END AS r
    FROM pg_operator JOIN own USING (oprname), generate_series(0, 3) known WHERE oprnamespace = 'pg_catalog'::regnamespace)
SELECT DISTINCT CASE oprleft WHEN 0 THEN format('SELECT %s %s', oprname, r) ELSE format('SELECT %s %s %s', l, oprname, r) END FROM sides ORDER BY 1
"""
# docs/confidential/encdb.md has them among the limits. None has an argument whose type is known.
NOT_UNIQUE = {
    *(f"SELECT {name}(NULL)" for name in ("abs", "ceil", "ceiling", "floor", "round", "bool_and", "bool_or", "every", "stddev", "stddev_pop", "stddev_samp",
                                          "var_pop", "var_samp", "variance")),
    *(f"SELECT {name}(NULL, NULL)" for name in ("power", "round", "trunc", "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2",
                                                "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy")),
    "SELECT NULL ^ NULL"}


def with_parameters(statement):
    """The statement with a parameter in place of each NULL without a type."""
    numbers = itertools.count(1)
    return re.sub(r"\bNULL\b(?!::)", lambda _: f"${next(numbers)}", statement)


class PlainCalls(Confidential):
    def test_calls_and_operators(self):
        server = self.server()
        server.psql("CREATE DATABASE bare")
        asked = f"{server.psql(CALLS)}\n{server.psql(OPERATORS)}".split("\n")
        self.assertGreater(len(asked), 1000)
        with_, without = (self.states(server, database, asked) for database in ("postgres", "bare"))
        self.assertGreater(without.count("00000"), len(asked) / 2)
        taken = [(one, state) for one, state, before in zip(asked, with_, without) if before == "00000" and state != before]
        self.assertEqual({one for one, _ in taken}, NOT_UNIQUE)
        self.assertEqual({state for _, state in taken}, {"42725"})

    def test_types_of_parameters(self):
        """Where a call goes on to be unique, its parameters have the types that they had."""
        server = self.server()
        server.psql("CREATE DATABASE bare")
        asked = [with_parameters(one) for one in f"{server.psql(CALLS)}\n{server.psql(OPERATORS)}".split("\n")]
        with_, without = (self.types(server, database, asked) for database in ("postgres", "bare"))
        taken = [(one, before, types) for one, types, before in zip(asked, with_, without) if "none" not in (types, before)]
        self.assertGreater(len(taken), len(asked) / 4)
        self.assertEqual([it for it in taken if it[1] != it[2]], [])

    def types(self, server, database, asked):
        """The types of the parameters of each, or none if it is refused."""
        types = "SELECT coalesce((SELECT replace(parameter_types::text, ' ', '_') FROM pg_prepared_statements), 'none');\n"
        script = "".join(f"PREPARE x AS {one};\n{types}DEALLOCATE ALL;\n" for one in asked)
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", database, "-U", "postgres", input=script, check=False)
        found = done.stdout.split()
        self.assertEqual(len(found), len(asked), done.stderr[-500:])
        return found

    def states(self, server, database, asked):
        """The SQLSTATE of each when it is prepared: nothing is run."""
        script = "\\set VERBOSITY sqlstate\n" + "".join(f"PREPARE x AS {one};\n\\echo :SQLSTATE\nDEALLOCATE ALL;\n" for one in asked)
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", database, "-U", "postgres", input=script, check=False)
        states = done.stdout.split()
        self.assertEqual(len(states), len(asked), done.stderr[-500:])
        return states


if __name__ == "__main__":
    main(__file__, TOOLS)
