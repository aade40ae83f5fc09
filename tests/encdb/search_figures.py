#!/usr/bin/env python3
"""How long filters without an index, the making of indexes, and searches in them take, beside plain columns of the same values.

    PGSEAL_FIGURES_ROWS=1000000 python3 tests/encdb/search_figures.py

Without the variable the rows are few: the test is then that all of it works.

Each server has the values in plain and in encrypted columns. A round runs a statement on both, in a new session that has run it once
before; what makes an index drops it again. Prints a Markdown table: the plain column's median in milliseconds, and the medians of the
rounds' ratios to it with their ranges. Parallel workers are off.
"""

import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

ROWS = int(os.environ.get("PGSEAL_FIGURES_ROWS", "2000"))
ROUNDS = int(os.environ.get("PGSEAL_FIGURES_ROUNDS", "5"))
SETTINGS = "shared_buffers = 1GB\nmaintenance_work_mem = 512MB\nmax_parallel_maintenance_workers = 0\nmax_parallel_workers_per_gather = 0\nautovacuum = off\nmax_wal_size = 8GB\n"
# One word of a thousand, one of a million, and one of fifty.
TEXT = "'word' || g % 1000 || ' customer ' || md5(g::text) || ' street ' || g % 50"
SETUP = f"""
CREATE EXTENSION pg_trgm;
CREATE TABLE doc (id int, n int, t text COLLATE "C", k enc_int4, c enc_text COLLATE "C");
INSERT INTO doc SELECT g, g * 7919::bigint % {ROWS}, {TEXT}, encdb.enc_int4_encrypt((g * 7919::bigint % {ROWS})::int), encdb.enc_text_encrypt({TEXT})
    FROM generate_series(1, {ROWS}) g;
VACUUM ANALYZE doc;
"""
# Each with the plain column or value, and the encrypted one, in the place of the braces.
NUMBER, SOME, WORD, PREFIX = "1234", str(ROWS // 3), "%word77 %", "word12%"
CELLS = {"number": f"enc_int4_encrypt({NUMBER})", "some": f"enc_int4_encrypt({SOME})", "word": f"enc_text_encrypt('{WORD}')", "prefix": f"enc_text_encrypt('{PREFIX}')"}
PLAIN = {"k": "n", "c": "t", "number": NUMBER, "some": SOME, "word": f"'{WORD}'", "prefix": f"'{PREFIX}'"}
SEALED = {"k": "k", "c": "c", **{name: f":'{name}'" for name in CELLS}}
COUNT = "SELECT count(*) FROM doc WHERE "
SCANS = {"`=`, no index": COUNT + "{k} = {number}", "`<`, no index": COUNT + "{k} < {some}", "`LIKE '%word%'`, no index": COUNT + "{c} LIKE {word}",
         "`CREATE INDEX` on integers": "CREATE INDEX made ON doc ({k}); DROP INDEX made", "`CREATE INDEX` on texts": "CREATE INDEX made ON doc ({c}); DROP INDEX made"}
SEARCHES = {"`LIKE 'word%'` by a B-tree": COUNT + "{c} LIKE {prefix}", "`LIKE '%word%'` by trigrams": COUNT + "{c} LIKE {word}"}
TRIGRAMS = "CREATE INDEX parts ON doc USING gin ({} {})"


class Figures(Proxied):
    def test_figures(self):
        servers = {form: self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf=SETTINGS) for form in FORMS}
        for server in servers.values():
            self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;" + SETUP)
        print(f"| {ROWS} rows | plain, ms | evaluator in the backend, times | in a process of its own, times |\n| --- | --- | --- | --- |")
        for name, statement in SCANS.items():
            self.row(servers, name, statement)
        made = {form: (self.once(server, TRIGRAMS.format("t", "gin_trgm_ops"), "plain"), self.once(server, TRIGRAMS.format("c", "enc_text_trgm_ops").replace("parts", "tokens"), "sealed"))
                for form, server in servers.items()}
        print("| `CREATE INDEX`, trigrams, once |", " | ".join([f"{made['inline'][0]:.0f}", *(f"{sealed / plain:.2f}" for plain, sealed in made.values())]), "|")
        for server in servers.values():
            self.as_owner(server, "CREATE INDEX ON doc (t); CREATE INDEX ON doc (c); ANALYZE doc")
        for name, statement in SEARCHES.items():
            self.row(servers, name, statement)

    def row(self, servers, name, statement):
        plain, ratios = [], {form: [] for form in servers}
        for _ in range(ROUNDS):
            for form, server in servers.items():
                one, other = self.once(server, statement.format(**PLAIN), "plain"), self.once(server, statement.format(**SEALED), "sealed")
                plain.append(one)
                ratios[form].append(other / one)
        cells = [f"{statistics.median(them):.2f} ({min(them):.2f} to {max(them):.2f})" for them in ratios.values()]
        print(f"| {name} | {statistics.median(plain):.1f} |", " | ".join(cells), "|", flush=True)

    def once(self, server, statement, kind):
        """Milliseconds of a statement's second run in a session; what makes an index runs once."""
        cells = "".join(f"SELECT encdb.{call} AS {name} \\gset\n" for name, call in CELLS.items()) if kind == "sealed" else ""
        first = "" if statement.startswith("CREATE") else f"{statement};\n"
        timed = f"SELECT clock_timestamp() AS begun \\gset\n{statement};\nSELECT 1000 * extract(epoch FROM clock_timestamp() - :'begun');"
        return float(self.as_owner(server, f"{cells}{first}{timed}").splitlines()[-1])


if __name__ == "__main__":
    main(__file__, TOOLS)
