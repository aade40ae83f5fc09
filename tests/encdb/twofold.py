"""One text of SQL for plain columns and for encrypted ones (imported by the makers of random queries only).

In a text «int4 7» is a constant, ‹int4› a type, and opened(x) is x as its owner reads it. Statements end in ";\\n", which
is nowhere else. Invariant: what plain() and sealed() make of a text differs in nothing but these.
"""

import re

from statements import encrypted, quoted

CONSTANT = re.compile("«(\\w+) (.*?)»", re.S)
TYPE = re.compile("‹(\\w+)›")


def constant(ty, literal):
    return f"«{ty} {literal}»"


def plain(text):
    text = CONSTANT.sub(lambda found: f"{quoted(found[2])}::{found[1]}", text)
    return TYPE.sub(r"\1", text).replace("opened(", "(")


class Constants:
    """The constants of sealed texts, which are psql's variables."""

    def __init__(self):
        self.names = {}

    def sealed(self, text):
        text = CONSTANT.sub(lambda found: f":'{self.name(found[1], found[2])}'::{encrypted(found[1])}", text)
        return TYPE.sub(lambda found: encrypted(found[1]), text).replace("opened(", "encdb.decrypt(")

    def name(self, ty, literal):
        return self.names.setdefault((ty, literal), f"c{len(self.names)}")

    def prologue(self):
        """SQL that makes the constants of all texts so far."""
        made = [f"encdb.{encrypted(ty)}_encrypt({quoted(literal)}::{ty}) AS {name}" for (ty, literal), name in self.names.items()]
        return "".join(f"SELECT {', '.join(made[at:at + 50])} \\gset\n" for at in range(0, len(made), 50))
