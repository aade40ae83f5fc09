#!/usr/bin/env python3
"""Databases that are not in UTF8: values and key names go through, and no error shows what does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential, owner  # noqa: E402
from pgseal_test import main  # noqa: E402

KEY = "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
NAMED = """
SELECT encdb.dek_generate('caf' || chr(233)) IS NOT NULL;
SELECT encdb.decrypt(encdb.enc_text_encrypt('caf' || chr(233), 'caf' || chr(233))) = 'caf' || chr(233);
"""
# The form of a wrapped key that nobody's master key opens.
FOREIGN = "decode('01010000000000', 'hex') || int4send({}) || decode(repeat('00', 76), 'hex')"
INSERT = f"SELECT encdb.dek_insert({{}}, {FOREIGN}) IS NOT NULL"


class Encodings(Confidential):
    def databases(self, encoding):
        """A server of each form, with a database in this encoding whose owner has a key."""
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            server.psql(f"CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'; CREATE ROLE bob LOGIN")
            server.psql("CREATE EXTENSION encdb", db="other")
            self.as_owner(server, KEY, db="other")
            yield server

    def cell(self, server, text):
        """What the owner's client makes of a text, under the key of the database."""
        name, wrapped = server.psql("SELECT keyname, wrapped FROM encdb.data_key WHERE keyname = encdb.default_keyname()", db="other").split("|\\x")
        return owner("seal", "7", name, f"\\x{wrapped}", "text", text)

    def refused(self, server, sql):
        said = self.as_owner(server, "\\set VERBOSITY verbose\n" + sql, db="other", error="ERROR:  22P05: the (value|text) ")
        for shown in [said, server.log()]:
            self.assertNotRegex(shown, "0xe2|0xe9|byte sequence")

    def test_values_and_names_in_latin1(self):
        for server in self.databases("LATIN1"):
            self.assertEqual(self.as_owner(server, NAMED, db="other").split(), ["t", "t"])
            opened = "SELECT encdb.decrypt('{}'::enc_text)"
            there, not_there = (opened.format(self.cell(server, text)) for text in ["na\u00efve", "password\u20acx"])
            self.assertEqual(self.as_owner(server, f"{there} = 'na' || chr(239) || 've'", db="other"), "t")
            replaced = "SELECT encdb.decrypt(replace('{}'::enc_text, chr(239), 'ia')) = 'naiave'".format(self.cell(server, "na\u00efve"))
            self.assertEqual(self.as_owner(server, replaced, db="other"), "t")
            self.refused(server, not_there)
            self.assertEqual(server.psql(INSERT.format("'th' || chr(233)", 77), db="other", user="bob"), "t")
            self.assertEqual(self.as_owner(server, NAMED.splitlines()[2], db="other"), "t")

    def test_bytes_of_no_encoding(self):
        for server in self.databases("SQL_ASCII"):
            self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(encdb.enc_text_encrypt('ascii'))", db="other"), "ascii")
            self.refused(server, "SELECT encdb.enc_text_encrypt(E'password\\xe9x')")
            self.refused(server, "SELECT btrim(encdb.enc_text_encrypt('ascii'), E'password\\xe9x')")
            self.refused(server, "SELECT encdb.dek_generate(E'caf\\xe9')")
            server.psql(f"INSERT INTO encdb.data_key SELECT E'caf\\xe9', 77, false, {FOREIGN.format(77)}", db="other")
            self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(encdb.enc_text_encrypt('ascii'))", db="other"), "ascii")


if __name__ == "__main__":
    main(__file__, TOOLS)
