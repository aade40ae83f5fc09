"""Rewrites a statement over plain columns into candidates over encrypted ones (imported by test_pg_files.py only).

Mechanical, and without knowledge of types: what could be encrypted is a *place* with two forms, sealed and as it is. The
server says which candidate it can analyse. Places are
  a constant, 7 or int8 '7' or '7'::int8: encrypted under its own type
  a string, '7': a parameter, whose type the server infers; its value is encrypted if that is an encrypted type
  a cast, ::int8 or CAST (x AS int8): to the encrypted type
  a column of a CREATE TABLE: of the encrypted type
"""

import itertools

from sqltext import Token

# How PostgreSQL's files call the types that have an encrypted one.
TYPES = {"int4": "int4", "int": "int4", "integer": "int4", "int8": "int8", "bigint": "int8", "float4": "float4", "real": "float4",
         "float8": "float8", "numeric": "decimal", "decimal": "decimal", "text": "text", "bool": "bool", "boolean": "bool",
         "date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz", "uuid": "uuid", "bytea": "bytea",
         "interval": "interval"}
# Constants of these are of no type that is encrypted, but become one beside an int4.
PROMOTED = {"int2": "int4", "smallint": "int4"}
# After these words a string is no constant of a type that is named so.
KEYWORDS = set("""all and any as between by case default distinct else end escape except from having ilike in intersect into is like
    limit not offset on or returning select similar set symmetric then to union using values when where with""".split())
FEW_PLACES = 12
MOST_CANDIDATES = 30  # of those that are sealed most, and of those that are sealed least
LARGEST = {31: "int4", 63: "int8"}


class Place:
    """A run of tokens, and what is there when it is sealed: text, or a parameter (None) for its only token."""

    def __init__(self, start, end, sealed):
        self.start, self.end, self.sealed = start, end, sealed


class Candidate:
    """A rewritten statement and its parameters' texts; `bare` if it casts to plain text, which gives the letters of a cell."""

    def __init__(self, found, places, chosen):
        self.parameters, parts, at = [], [], 0
        self.bare = any(place.sealed == "enc_text" and not yes for place, yes in zip(places, chosen))
        for place, yes in zip(places, chosen):
            if yes:
                parts += [*(token.text for token in found[at:place.start]), self.form(place, found)]
                at = place.end
        self.text = "".join([*parts, *(token.text for token in found[at:])])

    def form(self, place, found):
        if place.sealed is not None:
            return place.sealed
        self.parameters.append(found[place.start].text)
        return f"${len(self.parameters)}"


def candidates(found, parameters=True):
    """Rewritings that are worth a try, the most sealed first: all places or none, but one or two."""
    places = list(places_of(found, parameters))
    flips = range(3 if len(places) <= FEW_PLACES else 2)
    chosen = {tuple(start != (n in flipped) for n in range(len(places)))
              for start in (True, False) for count in flips for flipped in itertools.combinations(range(len(places)), count)}
    ordered = sorted(chosen, key=lambda one: (sum(one), one), reverse=True)
    for one in [*ordered[:MOST_CANDIDATES], *ordered[MOST_CANDIDATES:][-MOST_CANDIDATES:]]:
        yield Candidate(found, places, one)


def places_of(found, parameters):
    """Where a statement could be sealed, from left to right."""
    if is_table(found):
        yield from columns(found)
        return
    at, places = 0, Places(found, parameters)
    while at < len(found):
        place = places.at(at)
        if place:
            yield place
        at = place.end if place else at + 1


def is_table(found):
    words = [token.text.lower() for token in found if token.kind == "word"]
    return words[:1] == ["create"] and "table" in words[1:4] and not any(token.is_word("as") for token in found)


def columns(found):
    """The types in a CREATE TABLE: what follows a name."""
    previous = Token("operator", "")
    for at, token in enumerate(found):
        if token.kind == "space":
            continue
        if token.kind == "word" and previous.kind in ("word", "quoted") and (end := type_end(found, at)):
            yield Place(at, end[0], f"enc_{end[1]}")
        previous = token


def type_end(found, at, types=TYPES):
    """The end of the type that is named here and its encrypted one's name; None if it has none, a modifier or a dimension."""
    words, after = [], at
    for after in range(at, len(found) + 1):
        if after == len(found) or found[after].kind not in ("word", "space"):
            break
        words += [found[after].text.lower()] * (found[after].kind == "word")
    if after < len(found) and found[after].text in ("(", "[") and len(words) == 1:
        return None
    if words[:2] == ["double", "precision"]:
        return at + 3, "float8"
    if words[:1] == ["timestamp"] and words[2:4] == ["time", "zone"]:
        return at + 7, "timestamptz" if words[1] == "with" else "timestamp"
    return (at + 1, types[words[0]]) if words and words[0] in types else None


class Places:
    """Finds the places of a query."""

    def __init__(self, found, parameters):
        self.found, self.parameters = found, parameters

    def at(self, at):
        token = self.found[at]
        if token.kind == "number":
            return self.number(at)
        if token.kind == "string":
            return self.string(at)
        if token.kind == "word" and not self.is_before(at, "::"):
            return self.typed(at)
        if token.text == "::" or token.is_word("as") and self.in_cast(at):
            return self.cast(at)
        return None

    def neighbour(self, at, step):
        """The next token that is no space, or an empty one."""
        at += step
        while 0 <= at < len(self.found) and self.found[at].kind == "space":
            at += step
        return self.found[at] if 0 <= at < len(self.found) else Token("operator", "")

    def is_before(self, at, text):
        return self.neighbour(at, -1).text == text

    def number(self, at):
        """A number, with its sign; not the number of a column in a list to order by."""
        if self.in_list(at):
            return None
        start, text = at, self.found[at].text
        if at and self.found[at - 1].text in ("-", "+") and not self.is_operand(self.neighbour(at - 1, -1)):
            start, text = at - 1, self.found[at - 1].text + text
        if self.casts(at + 1):
            return self.with_cast(start, at + 1, text)
        return Place(start, at + 1, encrypted(kind_of(text), text))

    def is_operand(self, token):
        return token.kind in ("number", "string", "quoted") or token.text in (")", "]") or token.kind == "word" and token.text.lower() not in KEYWORDS

    def in_list(self, at):
        """In ORDER BY 1, 2 and GROUP BY 1."""
        for before in range(at - 1, -1, -1):
            token = self.found[before]
            if token.is_word("by"):
                return True
            if token.kind not in ("space", "number") and token.text != "," and not token.is_word("asc", "desc", "nulls", "first", "last"):
                return False
        return False

    def casts(self, at):
        return at < len(self.found) and self.found[at].text == "::"

    def with_cast(self, start, at, text):
        """A constant with ::type."""
        begin = at + 1 + (self.found[at + 1].kind == "space")
        end = type_end(self.found, begin, {**TYPES, **PROMOTED})
        if not end:
            return None
        plain = "".join(token.text for token in self.found[begin:end[0]])
        return Place(start, end[0], encrypted(end[1], f"({text})::{plain}"))

    def string(self, at):
        if self.casts(at + 1):
            return self.with_cast(at, at + 1, self.found[at].text)
        previous = self.neighbour(at, -1)
        named = previous.kind == "quoted" or previous.kind == "word" and previous.text.lower() not in KEYWORDS
        if named or not self.parameters:
            return None
        return Place(at, at + 1, None)

    def typed(self, at):
        """type 'constant'; true, false."""
        if self.found[at].is_word("true", "false") and not self.neighbour(at, -1).is_word("is", "not", "on"):
            return Place(at, at + 1, encrypted("bool", self.found[at].text))
        end = type_end(self.found, at, {**TYPES, **PROMOTED})
        if not end:
            return None
        string = end[0]
        while string < len(self.found) and self.found[string].kind == "space":
            string += 1
        if string == len(self.found) or self.found[string].kind != "string":
            return None
        text = "".join(token.text for token in self.found[at:string + 1])
        return Place(at, string + 1, encrypted(end[1], text))

    def in_cast(self, at):
        """Is this the AS of a CAST?"""
        depth = 0
        for before in range(at - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(self.found[before].text, 0)
            if depth < 0:
                return self.neighbour(before, -1).is_word("cast")
        return False

    def cast(self, at):
        begin = at + 1
        while begin < len(self.found) and self.found[begin].kind == "space":
            begin += 1
        end = type_end(self.found, begin)
        return Place(begin, end[0], f"enc_{end[1]}") if end else None


def kind_of(number):
    """The type that PostgreSQL gives a number."""
    if not number.lstrip("+-").isdigit():
        return "decimal"
    for bits, name in LARGEST.items():
        if -2 ** bits <= int(number) < 2 ** bits:
            return name
    return "decimal"


def encrypted(name, text):
    return f"encdb.enc_{name}_encrypt({text})"
