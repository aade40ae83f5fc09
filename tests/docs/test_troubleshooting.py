#!/usr/bin/env python3
"""docs/confidential/troubleshooting.md has every error that a user of the proxy can meet, in the words of the sources."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/confidential/troubleshooting.md"
ERRORS = ROOT / "docs/encdb-errors.md"
CRATES = ROOT / "crates/encdb"
# Rows of docs/encdb-errors.md that no driver shows, or only one that makes keys by SQL.
NOT_SHOWN = {"00000", "23505", "42501", "42622", "42704"}
# Sentences of the client that begin PE009 and PE001; there are others for commands of `pgseal client`.
CLIENTS = {"error.rs": ["NotInstalled", "Pooled", "Switched", "Evidence", "NoKey", "NoKeyOfCell"], "list.rs": ["Missing", "Vanished", "Changed", "Withheld"],
           "evidence.rs": ["Refused"]}


def plain(text):
    """A sentence as the page writes it: one line, and an ellipsis for each value in it."""
    text = re.sub(r"\\\s*\n\s*", "", text).replace('\\"', '"')
    return re.sub(r"\{[^{}]*\}", "…", " ".join(text.split()))


def sentences(file):
    """The variants of an enum of errors, and their sentences."""
    found = re.findall(r'#\[error\(\s*"((?:[^"\\]|\\.|\\\n)*)"[^\]]*?\)\]\s*(?:///[^\n]*\s*)*(\w+)', file.read_text(), re.S)
    return {variant: plain(sentence) for sentence, variant in found}


def of_statements():
    """Why the engine does not send a statement, as pairs of SQLSTATE and sentence."""
    file = CRATES / "engine/src/refusal.rs"
    body = file.read_text().split("pub fn sqlstate(")[1].split("\n    }\n")[0]
    states = {}
    for variants, state in re.findall(r'^ {12}(Self::.*?) => "(\w{5})"', body, re.M):
        states.update({variant: state for variant in re.findall(r"Self::(\w+)", variants)})
    found = sentences(file)
    wrapped = {"Row", "Message", "Value", "Client"}  # the text is another error's
    if found.keys() | wrapped != states.keys() | {"Row", "Value"}:
        raise AssertionError(found.keys() ^ states.keys())
    return {(states[variant], sentence) for variant, sentence in found.items() if variant not in wrapped}


def of_connections():
    """What a driver is told before its connection is up."""
    pairs = set()
    for name in ["engine/src/engine.rs", "proxy/src/greeting.rs", "proxy/src/connection.rs"]:
        source = (CRATES / name).read_text()
        for text, state in re.findall(r'let text = "((?:[^"\\]|\\.|\\\n)*)";.*?error(?:_response)?\("(\w{5})", text\)', source, re.S):
            pairs.add((state, plain(text)))
        for state, text in re.findall(r'error_response\("(\w{5})", &format!\("([^"]*)"\)\)', source):
            pairs.add((state, plain(text)))
    return pairs


def of_the_table():
    rows = re.findall(r"^\| (\w{5}) \| [^|]*\| (.*) \|$", ERRORS.read_text(), re.M)
    return {(state, sentence) for state, sentence in rows if state not in NOT_SHOWN}


def of_values():
    """The SQLSTATEs of values that do not fit."""
    body = (CRATES / "value/src/error.rs").read_text().split("pub fn sqlstate(")[1].split("\n    }\n")[0]
    return set(re.findall(r'"([0-9A-Z]{5})"', body))


def of_the_client():
    """Sentences of the client that a driver is told, without SQLSTATEs."""
    return {sentences(CRATES / "client/src" / file)[name] for file, names in CLIENTS.items() for name in names}


class Troubleshooting(unittest.TestCase):
    def setUp(self):
        self.page = PAGE.read_text()
        quoted = re.findall(r"^> (\w{5}): (.*(?:\n> .*)*)", self.page, re.M)
        self.quoted = [(state, text.replace("\n> ", " ")) for state, text in quoted]

    def test_the_sentences_are_those_of_the_sources(self):
        expected = of_statements() | of_connections() | of_the_table()
        page = {(state, text) for state, text in self.quoted if (state, text) not in self.clients()}
        self.assertEqual(sorted(expected - page), [])
        own = {("22P03", "incorrect binary data format of type …")}
        self.assertEqual(sorted(page - expected), sorted(own))
        self.assertEqual(len(self.quoted), len(set(self.quoted)))

    def clients(self):
        """Of the quoted ones, those that the client says."""
        known = of_the_client()
        evidence = sentences(CRATES / "client/src/evidence.rs")["Refused"]
        known = {text.replace("…; nothing was sent to it", f"{evidence}; nothing was sent to it") for text in known} - {evidence}
        return {(state, text) for state, text in self.quoted if state in ("PE009", "PE001") and text in known}

    def test_the_clients_sentences_are_quoted(self):
        self.assertEqual(len(self.clients()), sum(map(len, CLIENTS.values())) - 1)

    def test_the_codes_of_values_are_listed(self):
        section = self.page.split("## Values that PostgreSQL would refuse too\n")[1]
        self.assertEqual(set(re.findall(r"\b([02-5][0-9A-Z]{4})\b", section)), of_values())

    def test_every_sentence_has_an_answer(self):
        """A quoted sentence is followed by another one or by a paragraph."""
        parts = self.page.split("\n\n")
        last = [part for part, following in zip(parts, [*parts[1:], "#"]) if part.startswith("> ") and following.startswith("#")]
        self.assertEqual(last, [])

    def test_lines_are_as_long_as_a_page(self):
        self.assertEqual([line for line in self.page.splitlines() if len(line) > 120], [])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
