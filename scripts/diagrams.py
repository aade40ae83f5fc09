#!/usr/bin/env python3
"""Usage: scripts/diagrams.py [--check]

Draws docs/diagrams/NAME.svg from docs/diagrams/NAME.txt, for each description there. `make docs` runs it. With --check it writes
nothing, and fails if a drawing in the tree is not what its description gives.

A description has one statement in each line; `#` begins a comment. Parts of a text are separated by ` / `, and each is a line of
the drawing.

    title TEXT                           the title, for those who hear the page
    alt TEXT                             the drawing in a sentence or more, for the same readers
    columns WIDTH...                     widths of the columns, in pixels
    rows HEIGHT...                       heights of the rows
    zone KIND COLUMN ROW COLUMN ROW TEXT an area around cells of the grid, from the first to the last; its text is left of them
    box KIND NAME COLUMN ROW TEXT        a box in a cell; its first line is bold. COLUMN may be FIRST-LAST
    arrow FROM TO [OFFSET] TEXT          an arrow between neighbours, in the middle of what they share, moved by OFFSET pixels;
                                         TEXT may be empty
    line FROM TO [OFFSET] TEXT           the same with heads at both ends

KIND is clear, stored, keys or plain: what a reader without a key could read there.
"""

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs/diagrams"
GAP_X, GAP_Y, MARGIN, PAD, LANE = 44, 84, 16, 14, 128
LINE, LABEL_LINE = 18, 15
# The width of a letter of text, and of a bold one, at most on average.
LETTER, BOLD = 6.7, 8.1
KINDS = ("clear", "stored", "keys", "plain")
STYLE = """
text { font: 13px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1f2328; }
.first { font-weight: bold; }
.zone { font-size: 12px; font-style: italic; fill: #57606a; }
.label { font-size: 12px; fill: #3d444d; }
.paper { fill: #ffffff; stroke: #d0d7de; }
.area { fill-opacity: .35; stroke-dasharray: 5 4; }
.clear { fill: #fff1cc; stroke: #bf8700; }
.stored { fill: #d2f4dc; stroke: #1a7f37; }
.keys { fill: #e4ddfb; stroke: #6639ba; }
.plain { fill: #f3f4f6; stroke: #8c959f; }
.arrow { stroke: #3d444d; stroke-width: 1.6; fill: none; }
.head { fill: #3d444d; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.zone { fill: #adb7c2; }
.label { fill: #c9d1d9; }
.paper { fill: #161b22; stroke: #3d444d; }
.clear { fill: #4a3a10; stroke: #d4a72c; }
.stored { fill: #14391f; stroke: #3fb950; }
.keys { fill: #35285c; stroke: #a48be8; }
.plain { fill: #262c34; stroke: #7d8590; }
.arrow { stroke: #c9d1d9; }
.head { fill: #c9d1d9; }
}
"""


class Wrong(Exception):
    """A statement that cannot be drawn."""


class Drawing:
    """What a description says, and where it is."""

    def __init__(self, text):
        self.title, self.alt, self.boxes, self.zones, self.arrows = "", "", {}, [], []
        for number, line in enumerate(text.splitlines(), 1):
            word, _, rest = line.partition(" ")
            if not word or word.startswith("#"):
                continue
            try:
                getattr(self, f"read_{word}")(rest.strip())
            except (AttributeError, ValueError, KeyError, IndexError) as error:
                raise Wrong(f"line {number}: {line!r}: {error}") from error

    def read_title(self, rest):
        self.title = rest

    def read_alt(self, rest):
        self.alt = rest

    def read_columns(self, rest):
        self.columns = spans(rest, GAP_X)

    def read_rows(self, rest):
        self.rows = spans(rest, GAP_Y)

    def read_zone(self, rest):
        kind, *cells, text = rest.split(" ", 5)
        first, top, last, bottom = (int(cell) - 1 for cell in cells)
        left, upper = self.columns[first][0] - (PAD if first else LANE), self.rows[top][0] - PAD
        right, lower = self.columns[last][1] + PAD, self.rows[bottom][1] + PAD
        self.zones.append((known(kind), (left, upper, right, lower), fitting(text, LANE, LETTER)))

    def read_box(self, rest):
        kind, name, columns, row, text = rest.split(" ", 4)
        first, _, last = columns.partition("-")
        left, right = self.columns[int(first) - 1][0], self.columns[int(last or first) - 1][1]
        top, bottom = self.rows[int(row) - 1]
        self.boxes[name] = (known(kind), (left, top, right, bottom), fitting(text, right - left, BOLD))

    def read_arrow(self, rest, both=False):
        source, target, *more = rest.split(" ", 2)
        text, offset = (more or [""])[0], 0
        head, _, tail = text.partition(" ")
        if head.lstrip("-").isdigit():
            offset, text = int(head), tail
        ends = between(self.boxes[source][1], self.boxes[target][1], offset)
        self.arrows.append((ends, both, text.split(" / ") if text else []))

    def read_line(self, rest):
        self.read_arrow(rest, both=True)

    def svg(self):
        width, height = self.columns[-1][1] + MARGIN + PAD, self.rows[-1][1] + MARGIN + PAD
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            'aria-labelledby="title alt">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="alt">{escape(self.alt)}</desc>',
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
            '<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
            f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        ]
        for kind, place, lines in self.zones:
            parts += [rectangle(f"area {kind}", place, 10), *in_lane(place, lines)]
        for kind, place, lines in self.boxes.values():
            parts += [rectangle(kind, place, 6), *in_box(place, lines)]
        for (x1, y1, x2, y2), both, lines in self.arrows:
            start = ' marker-start="url(#head)"' if both else ""
            parts.append(f'<path class="arrow" d="M{x1} {y1} L{x2} {y2}" marker-end="url(#head)"{start}/>')
            parts += beside((x1, y1, x2, y2), lines)
        return "\n".join([*parts, "</svg>", ""])


def known(kind):
    if kind not in KINDS:
        raise ValueError(f"no kind {kind}")
    return kind


def spans(text, gap):
    """The first and the last pixel of each column or row."""
    start, found = MARGIN + (PAD if gap == GAP_Y else LANE), []
    for size in map(int, text.split()):
        found.append((start, start + size))
        start += size + gap
    return found


def fitting(text, width, first):
    """The lines of a text that must be no wider than this; the letters of the first line have their own width."""
    lines = text.split(" / ")
    wide = [line for line in lines if len(line) * (first if line is lines[0] else LETTER) > width - 8]
    if wide:
        raise ValueError(f"wider than {width} pixels: {wide}")
    return lines


def between(one, other, offset):
    """The ends of an arrow from one box to another that is beside, above or below."""
    left, right = max(one[0], other[0]), min(one[2], other[2])
    if left < right:
        x = (left + right) // 2 + offset
        return (x, one[3], x, other[1]) if one[3] < other[1] else (x, one[1], x, other[3])
    top, bottom = max(one[1], other[1]), min(one[3], other[3])
    if top < bottom:
        y = (top + bottom) // 2 + offset
        return (one[2], y, other[0], y) if one[2] < other[0] else (one[0], y, other[2], y)
    raise ValueError("the boxes are not neighbours")


def rectangle(kind, place, radius):
    left, top, right, bottom = place
    return f'<rect class="{kind}" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" rx="{radius}"/>'


def words(kind, x, y, text, anchor="start"):
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def in_lane(place, lines):
    """Lines at the left end of an area, in the middle of its height."""
    y = (place[1] + place[3]) // 2 - LABEL_LINE * (len(lines) - 1) // 2 + 4
    return [words("zone", place[0] + PAD, y + LABEL_LINE * number, line) for number, line in enumerate(lines)]


def in_box(place, lines):
    """Lines in the middle of a box, the first of them bold."""
    x = (place[0] + place[2]) // 2
    y = (place[1] + place[3]) // 2 - LINE * (len(lines) - 1) // 2 + 5
    return [words("other" if number else "first", x, y + LINE * number, line, "middle") for number, line in enumerate(lines)]


def beside(ends, lines):
    """The text of an arrow: right of a vertical one, above a horizontal one."""
    x1, y1, x2, y2 = ends
    if x1 == x2:
        y = (y1 + y2) // 2 - LABEL_LINE * (len(lines) - 1) // 2 + 4
        return [words("label", x1 + 8, y + LABEL_LINE * number, line) for number, line in enumerate(lines)]
    y = y1 - 8 - LABEL_LINE * (len(lines) - 1)
    return [words("label", (x1 + x2) // 2, y + LABEL_LINE * number, line, "middle") for number, line in enumerate(lines)]


def drawings():
    """The path of each drawing, and what its description gives."""
    for description in sorted(DIRECTORY.glob("*.txt")):
        try:
            yield description.with_suffix(".svg"), Drawing(description.read_text()).svg()
        except Wrong as error:
            sys.exit(f"{description.relative_to(ROOT)}: {error}")


def main(check):
    stale = []
    for path, drawn in drawings():
        if path.exists() and path.read_text() == drawn:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(drawn)
    if check and stale:
        sys.exit(f"not as described, run scripts/diagrams.py: {' '.join(stale)}")


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1:] == ["--check"])
