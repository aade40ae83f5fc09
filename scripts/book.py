#!/usr/bin/env python3
"""Usage: scripts/book.py MDBOOK

Writes the book of the pages that docs/SUMMARY.md names, into target/book, with the program MDBOOK; then checks that every
link inside of it leads to a file and to a heading that are there. `make docs` runs it.

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
STAGE, BOOK = ROOT / "target/book-pages", ROOT / "target/book"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
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
    """The pages of the book, and the summary with names that begin at the tree's root."""
    text, names = SUMMARY.read_text(), []

    def from_root(link):
        name = (SUMMARY.parent / link[2]).resolve().relative_to(ROOT)
        names.append(name)
        return f"[{link[1]}]({name})"

    return LINK.sub(from_root, text), names


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
            copy = STAGE / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        return link[0]

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(resolved, text[end:code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(resolved, text[end:])])


def stage():
    """Lays the pages out as mdBook reads them."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    summary, names = pages()
    (STAGE / "SUMMARY.md").write_text(summary)
    (STAGE / "book.toml").write_text(CONFIG)
    for name in names:
        page = STAGE / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(links_resolved(name, names, (ROOT / name).read_text()))
    return names


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


def main(mdbook):
    names = stage()
    shutil.rmtree(BOOK, ignore_errors=True)
    subprocess.run([mdbook, "build", STAGE], check=True)
    dead = dead_links(names)
    for link in dead:
        print(f"leads nowhere: {link}")
    print(f"{len(names)} pages: {BOOK.relative_to(ROOT)}/index.html")
    return 1 if dead else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(sys.argv[1]))
