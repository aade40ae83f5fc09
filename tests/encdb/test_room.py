#!/usr/bin/env python3
"""A backend that has no memory left for encrypted values says so, and goes on, and so do all others."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

MEGABYTES = 60
TABLE = """SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE small AS SELECT encdb.enc_text_encrypt('small') AS s;
"""
BIG = f"CREATE TABLE big AS SELECT encdb.enc_text_encrypt(repeat('x', {MEGABYTES} * 1000000)) AS c;\n"
# From here on the backend gets so many kilobytes more, which its own copies of the cells and no more fit into.
LIMIT = r"""SELECT pg_backend_pid() AS pid \gset
\setenv PID :pid
\! prlimit --pid=$PID --as=$((($(awk '/VmSize/ { print $2 }' /proc/$PID/status) + LEFT) * 1024))
"""
OPERATIONS = ["c || c", "(c || c) || (c || c)", "c < c || c", "lower(c)", "encdb.decrypt(c)", "max(c)", "c LIKE c"]
# What anybody may call without a session or a key: megabytes that the backend gets, and the refusal.
STRANGERS = {
    "encdb.revocation_insert(list)": (250, "PE023"),
    "encdb.revocation_insert(substring(list FOR 30000000))": (250, "PE023"),
    "encdb.revocation_insert(fitting)": (150, "PE014"),
    "encdb.revocation_insert(fitting || '')": (30, "53200"),
    "encdb.grant_insert(list)": (250, "PE023"),
    "encdb.dek_insert('|stranger|', list)": (250, "PE019"),
    "encdb.process_message(list)": (250, "PE023"),
    "pg_catalog.extract(field, day)": (150, "53200"),
}


def unsigned_list(serials):
    """A list of revocations as docs/format/grant.md has it, except the signature."""
    head = b"PGSEALRV" + bytes([1]) + bytes(32) + (7).to_bytes(8, "little") + serials.to_bytes(4, "little")
    return head + b"".join(serial.to_bytes(16, "big") for serial in range(serials)) + bytes(64)


class Room(Confidential):
    def helpers(self, server):
        """Processes that end when any backend is killed or aborts."""
        return server.psql("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'checkpointer'")

    def refused(self, server, statements, left, code):
        """Each statement fails with this code in a backend that has so many megabytes left, which computes on afterwards."""
        before = self.helpers(server)
        sql = LIMIT.replace("LEFT", str(left * 1000)) + "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"
        for statement in statements:
            sql += f"{statement} \\g /dev/null\n\\echo :LAST_ERROR_SQLSTATE\n"
            sql += "SELECT encdb.decrypt(lower(s || s)) FROM small;\n"
        found = self.as_owner(server, sql).split()
        self.assertEqual(found, [code, "smallsmall"] * len(statements))
        self.assertEqual(self.helpers(server), before, "no backend ended the others")

    def test_values_that_memory_is_too_small_for_inline(self):
        server = self.server(conf="max_parallel_workers_per_gather = 0")
        self.as_owner(server, TABLE + BIG)
        self.refused(server, [f"SELECT {operation} FROM big" for operation in OPERATIONS], 5 * MEGABYTES, "53200")

    def test_what_anybody_may_pass_is_not_copied_before_it_is_judged(self):
        server = self.server()
        for name, serials in ("list", 4000000), ("fitting", 400000):
            (self.directory / name).write_bytes(unsigned_list(serials))
        read = [f"pg_read_binary_file('{self.directory / name}') AS {name}" for name in ("list", "fitting")]
        self.as_owner(server, f"""{TABLE}CREATE TABLE papers AS SELECT {', '.join(read)}, repeat('x', 100000000) AS field,
            encdb.enc_date_encrypt('2020-01-01') AS day;
            CREATE ROLE stranger; GRANT SELECT ON papers TO PUBLIC;""")
        before = self.helpers(server)
        for call, (left, code) in STRANGERS.items():
            sql = LIMIT.replace("LEFT", str(left * 1000)) + "SET ROLE stranger;\n\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\n"
            sql += f"SELECT {call} FROM papers;\n\\echo :LAST_ERROR_SQLSTATE\nSELECT 'goes on'"
            with self.subTest(call=call):
                self.assertEqual(server.psql(sql), f"{code}\ngoes on")
        self.assertEqual(self.helpers(server), before, "no backend ended the others")

    def test_a_request_that_is_too_large_for_the_ring_is_not_made(self):
        """64 operands of some megabytes would be copied before they are refused."""
        for form in FORMS:
            with self.subTest(form=form):
                socket = self.evaluator().socket if form == "isolated" else ""
                server = self.server(form, form, socket, "max_parallel_workers_per_gather = 0")
                self.as_owner(server, TABLE)
                self.as_owner(server, "CREATE TABLE big AS SELECT encdb.enc_text_encrypt(repeat('x', 7000000)) AS c;\n")
                chain = "SELECT " + " || ".join(["c"] * 60) + " FROM big"
                self.refused(server, [chain], 600, "53200" if form == "inline" else "PE023")
                server.stop()


if __name__ == "__main__":
    main(__file__, TOOLS)
