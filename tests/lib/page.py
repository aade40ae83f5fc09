"""A page of docs/operations as a script: the tests run the configuration and the commands that the page shows.

    page = Page("docs/operations/pgbackrest.md", {"/var/lib/pgbackrest": str(repository)})
    page.block("ini"), page.blocks("sh")

`places` puts a test's own paths where the page names those of a real installation; each must be there, so that a page
that changes does not leave a test behind.
"""

import re

from pgseal_test import STAGE


class Page:
    """The fenced blocks of a document of the tree, which must be among the tools of the test's `main`."""

    def __init__(self, document, places):
        self.text = (STAGE / document).read_text()
        for place in places:
            if place not in self.text:
                raise AssertionError(f"{document} does not name {place}")
        self.places = places

    def blocks(self, language):
        """All blocks of a language, in their order."""
        return [self._placed(block) for block in re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.M | re.S)]

    def block(self, language):
        """The only one."""
        only, = self.blocks(language)
        return only

    def _placed(self, block):
        for place, own in self.places.items():
            block = block.replace(place, own)
        return block
