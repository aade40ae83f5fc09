"""Cuts files of SQL for psql into statements, and statements into tokens (imported by sealing.py and test_pg_files.py).

It knows what PostgreSQL's own regression files contain: comments, all forms of literals, psql's commands, data of COPY.
Invariant: the tokens of a statement, joined, are its text, with one space for each comment.
"""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<string>(?:[eE]|[uU]&)?'(?:[^'\\]|''|\\.|\\)*')
      | (?P<bits>[bBxXnN]'[^']*')
      | (?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<variable>:['"]?\w+['"]?)
      | (?P<operator>::|:=|[-+*/<>=~!@\#%^&|`?]+|.)""", re.S | re.X)
PLAIN_STRING = re.compile(r"'(?:[^']|'')*'", re.S)


class Token(NamedTuple):
    """A piece of a statement."""
    kind: str
    text: str

    def is_word(self, *words):
        return self.kind == "word" and self.text.lower() in words


def token_at(sql, at):
    """A backslash in an ordinary string is a character as any other."""
    if match := PLAIN_STRING.match(sql, at):
        return Token("string", match[0])
    if sql.startswith("::", at):
        return Token("operator", "::")
    match = TOKEN.match(sql, at)
    return Token("dollar" if match["dollar"] else match.lastgroup, match[0])


def statements(text):
    """The statements of a file, each a list of tokens without its semicolon, and psql's commands, each one of kind `psql`.

    A COPY FROM stdin is followed by one token of kind `data`. Comments are dropped."""
    at, found, depth = 0, [], 0
    while at < len(text):
        if text[at] == "\\":
            line = text[at:].split("\n", 1)[0]
            yield from command(found, line)
            at, found, depth = at + len(line), [], 0
            continue
        token = token_at(text, at)
        at += len(token.text)
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == ";" and depth <= 0:
            data = copied(found, text, at)
            at += len(data)
            yield stripped(found) + ([Token("data", data)] if data else [])
            found, depth = [], 0
        else:
            found.append(Token("space", " ") if token.kind == "space" else token)


def command(found, line):
    """A command of psql, and the statement that it sends, if any."""
    before = stripped(found)
    yield [*before, Token("psql", line)]


def copied(found, text, at):
    """The lines of data after a COPY FROM stdin, with the line that ends them."""
    words = [token.text.lower() for token in found if token.kind == "word"]
    if words[:1] != ["copy"] or "stdin" not in words:
        return ""
    return text[at:text.index("\n\\.\n", at) + 4]


def stripped(found):
    """Without space at its ends."""
    while found and found[0].kind == "space":
        found = found[1:]
    while found and found[-1].kind == "space":
        found = found[:-1]
    return found
