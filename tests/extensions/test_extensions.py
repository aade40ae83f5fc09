#!/usr/bin/env python3
"""Extensions that Debian packages, on an encrypted cluster and on a plain one: same answers before a kill -9, after it and after a
restart; no canary in the encrypted data directory but where docs/operations/extensions.md says so, and every one in the plain.

Each extension has a database of its own in one server, which loads all that want to be loaded."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from life import compare  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import Case, main  # noqa: E402
from table import ENTRIES  # noqa: E402

DOCUMENT = "docs/operations/extensions.md"


class Extensions(Case):
    def test_entries(self):
        compare(self, ENTRIES)

    def test_the_page_names_them(self):
        page = Page(DOCUMENT, {})
        self.assertEqual([entry.name for entry in ENTRIES if f"`{entry.name}`" not in page.text], [])


if __name__ == "__main__":
    main(__file__, [DOCUMENT])
