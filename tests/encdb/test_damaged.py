#!/usr/bin/env python3
"""Pages of indexes on encrypted columns that are not as they were written, where no checksum shows it: nothing beyond them is used."""

import re
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential, programs  # noqa: E402
from pgseal_test import STAGE, main, run  # noqa: E402

PROGRAM = "tests/encdb/damaged_page.c"
SOURCES = "extension/encdb/src"
BLOCK, HEADER, LEAF = 8192, 24, 1
TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT g, encdb.enc_text_encrypt(CASE g WHEN 7 THEN repeat('x', 2000) ELSE 'word ' || g END) AS c FROM generate_series(1, 30) g;
CREATE INDEX t_c ON t (c);
CHECKPOINT;
"""
LOOKUP = "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT g FROM t WHERE c >= (SELECT encdb.enc_text_encrypt('word 9'));"


def pointers(page):
    """Where the line pointers are, and offset and length of what each leads to."""
    for at in range(HEADER, struct.unpack_from("<H", page, 12)[0], 4):
        (pointer,) = struct.unpack_from("<I", page, at)
        yield at, pointer & 0x7FFF, pointer >> 17


def all_one_tuple(page):
    """All line pointers lead to the longest tuple, so that the page seems to have more than it holds."""
    _, offset, length = max(pointers(page), key=lambda one: one[2])
    for at, *_ in list(pointers(page)):
        struct.pack_into("<I", page, at, offset | 1 << 15 | length << 17)


def long_key(page):
    """The keys that say how long they are in four bytes say another length."""
    for _, offset, length in pointers(page):
        if length > 200:
            struct.pack_into("<I", page, offset + 8, 0x20000000 << 2)


class Damaged(Confidential):
    def test_under_the_address_sanitizer(self):
        config = [programs() / "pg_config"]
        server = run([*config, "--includedir-server"]).stdout.strip()
        program = self.directory / "damaged"
        subprocess.run(["gcc", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{STAGE / SOURCES}", f"-I{server}",
                        STAGE / PROGRAM, STAGE / SOURCES / "btree_page.c", STAGE / SOURCES / "btree_memory.c", "-o", program], check=True)
        pages, refused = map(int, re.findall(r"\d+", run([program]).stdout))
        self.assertGreater(pages, 500_000)
        self.assertGreater(refused, 10_000)

    def test_a_server_lives(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf="autovacuum = off",
                                 sealed=False)  # the file is written to as it is read
            self.as_owner(server, TABLE)
            server.stop()
            server.run("pg_checksums", "--disable", "-D", server.data)
            server.start()
            file = server.data / server.psql("SELECT pg_relation_filepath('t_c')")
            sound = file.read_bytes()
            for damage in [all_one_tuple, long_key]:
                with self.subTest(form=form, damage=damage.__name__):
                    server.stop()
                    page = bytearray(sound[LEAF * BLOCK:(LEAF + 1) * BLOCK])
                    damage(page)
                    file.write_bytes(sound[:LEAF * BLOCK] + page + sound[(LEAF + 1) * BLOCK:])
                    server.start()
                    session = server.run("psql", "-X", "-U", "postgres", "-d", "postgres", input=self.opening() + LOOKUP, check=False)
                    self.assertNotIn("connection to server was lost", session.stderr)
                    if damage is long_key:
                        self.assertIn("a key of an index does not end on its page", session.stderr)
                    self.assertEqual(server.psql("SELECT count(*) FROM t"), "30")


if __name__ == "__main__":
    main(__file__, [*TOOLS, PROGRAM, SOURCES])
