"""A page of docs/operations as a script: the tests run the configuration and the commands that the page shows.

    page = Page("docs/operations/pgbackrest.md", {"/var/lib/pgbackrest": str(repository)})
    page.block("ini"), page.blocks("sh")

`places` puts a test's own paths where the page names those of a real installation; each must be there, so that a page
that changes does not leave a test behind.
"""

import re
import subprocess

import stage
from pgseal_test import STAGE, Case


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


class PageCase(Case):
    """Runs a page's commands in the test's directory, with servers below it that they may leave running."""

    def run_commands(self, script, environment):
        """Runs a script so that the first failure ends it; returns what it printed. Its output leaves no file behind."""
        self.addCleanup(self.end_servers)
        # pg_ctl leaves a server that keeps what it inherits open: output goes to a file, not into a pipe.
        output = self.directory.parent / f"{self.directory.name}.output"
        self.addCleanup(output.unlink, missing_ok=True)
        with open(output, "w") as file:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, cwd=self.directory,
                                  stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=300, check=False)
        logs = "".join(log.read_text()[-3000:] for log in self.directory.glob("*log"))
        self.assertEqual(done.returncode, 0, output.read_text()[-3000:] + logs)
        return output.read_text()

    def end_servers(self):
        for pid_file in self.directory.glob("*/postmaster.pid"):
            postmaster = int(pid_file.read_text().split()[0])
            stage.end_processes({postmaster} | stage.descendants(postmaster))
