#!/usr/bin/env python3
"""Usage: scripts/book.py MDBOOK COMMANDS

Writes the book of the pages that docs/SUMMARY.md names, into target/book, with the program MDBOOK; then checks that every
link inside of it leads to a file and to a heading that are there. `make docs` runs it.

COMMANDS is a directory of pages, one for each command, with a SUMMARY.md of its own: `pgseal-pages` writes it. The book has these
pages below docs/commands.md.

The book has the tree's own folders, so that links between pages, and to pages outside of docs/, stay as they are. Files that
pages link to beside pages (reports, sources) are copied along. A link to a folder becomes its text: a book has no folders.
"""

import html.parser
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "docs/SUMMARY.md"
COMMANDS = Path("docs/commands.md")
STAGE, BOOK = ROOT / "target/book-pages", ROOT / "target/book"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
CONFIG = """[book]
title = "pgseal"
language = "en"
src = "."
[build]
build-dir = "../book"
create-missing = false
use-default-preprocessors = false
[output.html]
default-theme = "light"
smart-punctuation = false
[output.html.search]
enable = true
"""


def is_outside(target):
    return "://" in target or target.startswith("mailto:")


def pages():
    """The pages of the tree in the book, and the summary with names that begin at the tree's root."""
    text, names = SUMMARY.read_text(), []

    def from_root(link):
        name = (SUMMARY.parent / link[2]).resolve().relative_to(ROOT)
        names.append(name)
        return f"[{link[1]}]({name})"

    return LINK.sub(from_root, text), names


def with_commands(summary, commands):
    """The summary with the pages of commands below the page that says what they are, and the names of these pages."""
    names = []

    def in_book(link):
        names.append(COMMANDS.with_suffix("") / link[2])
        return f"[{link[1]}]({names[-1]})"

    listed = LINK.sub(in_book, (commands / "SUMMARY.md").read_text())
    below = "".join(f"  {line}\n" for line in listed.splitlines())
    above = f"({COMMANDS})\n"
    if above not in summary:
        sys.exit(f"{SUMMARY.relative_to(ROOT)} does not name {COMMANDS}")
    return summary.replace(above, above + below), names


def copied(path):
    """Puts a file of the tree into the book."""
    copy = STAGE / path.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copy)


def links_resolved(name, names, text):
    """The text of a page; what it links to beside pages is copied, and folders are not linked."""

    def resolved(link):
        title, target = link[1], link[2].partition("#")[0]
        if is_outside(link[2]) or not target:
            return link[0]
        path = ((ROOT / name).parent / target).resolve()
        if path.is_dir() or path.suffix == ".md" and path.relative_to(ROOT) not in names:
            return title
        if path.suffix != ".md":
            copied(path)
        return link[0]

    for image in IMAGE.finditer(text):
        copied(((ROOT / name).parent / image[1]).resolve())
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(resolved, text[end:code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(resolved, text[end:])])


def stage(commands):
    """Lays the pages out as mdBook reads them; returns their names."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    summary, names = pages()
    summary, of_commands = with_commands(summary, commands)
    (STAGE / "SUMMARY.md").write_text(summary)
    (STAGE / "book.toml").write_text(CONFIG)
    for name in names:
        page = STAGE / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(links_resolved(name, names, (ROOT / name).read_text()))
    for name in of_commands:
        (STAGE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(commands / name.name, STAGE / name)
    return names + of_commands


class Written(html.parser.HTMLParser):
    """The names and the links of a page of the book."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names.add(attributes.get("id"))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "img":
            self.links.append(attributes["src"])


def dead_links(names):
    """The links of the written pages that lead nowhere, each with its page."""
    written, dead = {}, []

    def of(path):
        if path not in written:
            written[path] = Written(path)
        return written[path]

    for name in names:
        page = BOOK / Path(name).with_suffix(".html")
        for link in of(page).links:
            if is_outside(link):
                continue
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            path = (page.parent / target).resolve() if target else page
            if not path.is_file() or anchor and path.suffix == ".html" and anchor not in of(path).names:
                dead.append(f"{name}: {link}")
    return dead


def main(mdbook, commands):
    names = stage(commands)
    shutil.rmtree(BOOK, ignore_errors=True)
    subprocess.run([mdbook, "build", STAGE], check=True)
    dead = dead_links(names)
    for link in dead:
        print(f"leads nowhere: {link}")
    print(f"{len(names)} pages: {BOOK.relative_to(ROOT)}/index.html")
    return 1 if dead else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
