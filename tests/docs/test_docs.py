#!/usr/bin/env python3
"""What the documents say holds: commands run as printed, options exist, links and paths lead somewhere.

The session of README.md runs as the unprivileged user `postgres` when root starts the tests, and as the tests' own user
otherwise. Its pgbench is made shorter.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from figures import Documents
from published import Published

ROOT = Path(__file__).resolve().parents[2]
DEBIAN_PG = "/usr/lib/postgresql/15/bin"
SHORTER = {"pgbench -i -s 50": "pgbench -i -s 2", "pgbench -c 4 -T 30": "pgbench -c 4 -T 3"}

# Paths of the reader's own machine and data, as the documents name them.
OWN_PATHS = re.compile(r"^(data|sealed|log|first|second|recovery|target)(/|$)")


def documents():
    """All Markdown files under version control, or about to be."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, text=True, capture_output=True).stdout.split()
    return [ROOT / name for name in names]


def blocks(document, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S)


class Links(unittest.TestCase):
    def test_links_lead_to_files(self):
        dead = []
        for document in documents():
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
                if "://" not in target and not (document.parent / target).exists():
                    dead.append(f"{document.relative_to(ROOT)}: {target}")
        self.assertEqual(dead, [])

    def test_paths_of_this_tree_exist(self):
        tops = {path.name for path in ROOT.iterdir()}
        dead = []
        for document in documents():
            for path in re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", document.read_text()):
                places = [ROOT / path, document.parent / path, ROOT / "crates" / path]
                mine = path.split("/")[0] in tops and not OWN_PATHS.match(path) and not path.startswith("dist/")
                if mine and not any(place.exists() for place in places):
                    dead.append(f"{document.relative_to(ROOT)}: {path}")
        self.assertEqual(dead, [])

    def test_the_table_of_files_uses_what_is_defined_above_it(self):
        section = (ROOT / "docs/format/files.md").read_text().split("\n## Classes\n")[1].split("\n## ")[0]
        above, table = section.split("\n| names |")[0], "".join(re.findall(r"^\|.*\n", section, re.M))
        self.assertEqual(set(re.findall(r"<\w+>", above)) - {"<number>"}, set(re.findall(r"<\w+>", table)))


class CommandLines(unittest.TestCase):
    """Every `pgseal …` of the documents names a subcommand and options that its help lists."""

    def test_command_lines_parse(self):
        wrong = []
        for document in documents():
            for line in command_lines(document.read_text()):
                if problem := self.problem(line):
                    wrong.append(f"{document.relative_to(ROOT)}: {line}: {problem}")
        self.assertEqual(wrong, [])

    def problem(self, line):
        words = shlex.split(line, comments=True)[1:]
        if words[0] == "help":
            return self.problem_of_help(words)
        command = [word for word in words[:depth(words)] if not word.startswith("-")]
        help_text = self.help(command)
        if help_text is None:
            return f"there is no {' '.join(command)}"
        options = [word.split("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]
        unknown = [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", help_text)]
        return f"no option {', '.join(unknown)}" if unknown else None

    def problem_of_help(self, words):
        done = subprocess.run([ROOT / "dist/bin/pgseal", *words], text=True, capture_output=True, check=False)
        return done.stderr or None

    def help(self, command):
        done = subprocess.run([ROOT / "dist/bin/pgseal", *command, "--help"], text=True, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def test_wrappers_lie_in_one_directory_that_bindir_takes(self):
        """The documents, and what is packaged, say one path; below another root the same last names count."""
        packaged = [file for file in (ROOT / "packaging").rglob("*") if file.is_file()]
        texts = [file.read_text() for file in documents() + packaged]
        named = {path for text in texts for path in re.findall(r"/[a-z/]+/pgseal/\d+(?:/bin\b)?(?![\w-])", text)}
        self.assertEqual(named, {"/usr/local/lib/pgseal/15"})
        with tempfile.TemporaryDirectory(prefix="pgseal-docs.") as root:
            for path in named:
                command = [ROOT / "dist/bin/pgseal", "bindir", "--pg", DEBIAN_PG, "--into", root + path]
                done = subprocess.run(command, text=True, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), path)


class Diagrams(unittest.TestCase):
    def drawn(self, *arguments):
        done = subprocess.run(["/usr/bin/python3", ROOT / "scripts/diagrams.py", *arguments], text=True, capture_output=True, check=False)
        return done.returncode, done.stderr

    def test_drawings_are_as_described(self):
        self.assertEqual(self.drawn("--check"), (0, ""))
        self.assertEqual(len(list((ROOT / "docs/diagrams").glob("*.svg"))), len(list((ROOT / "docs/diagrams").glob("*.txt"))))

    def test_drawings_say_what_they_show_and_follow_the_reader_s_colours(self):
        for path in (ROOT / "docs/diagrams").glob("*.svg"):
            drawing = path.read_text()
            self.assertIn('role="img" aria-labelledby="title alt">', drawing, path)
            self.assertRegex(drawing, r'<desc id="alt">[^<]{80,}</desc>', path)
            self.assertIn("@media (prefers-color-scheme: dark)", drawing, path)
        images = [(page, alt) for page in documents() for alt in re.findall(r"!\[([^\]]*)\]\([^)]*\.svg\)", page.read_text())]
        self.assertGreaterEqual(len(images), 3)
        self.assertEqual([page for page, alt in images if len(alt) < 20], [])

    def test_a_wrong_description_is_refused(self):
        sys.path.insert(0, str(ROOT / "scripts"))
        import diagrams
        right = "columns 100 100\nrows 50\nbox clear a 1 1 One\nbox plain b 2 1 Two\narrow a b go\n"
        self.assertIn("M244 55 L288 55", diagrams.Drawing(right).svg())
        for wrong in ("box odd c 1 1 Three", "box clear c 1 1 " + "wide " * 9, "arrow a c", "circle a", "box clear c 3 1 Three"):
            with self.assertRaisesRegex(diagrams.Wrong, "line 6"):
                diagrams.Drawing(right + wrong)


class Topics(unittest.TestCase):
    """`pgseal help TOPIC` is the beginning of a page; the tables in it are those of the code."""

    def help(self, *words):
        done = subprocess.run([ROOT / "dist/bin/pgseal", "help", *words], text=True, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_each_topic_is_printed(self):
        listed = re.findall(r"^  (\S+)  ", self.help("topics")[1], re.M)
        self.assertEqual(listed, ["keys", "exit-codes", "environment"])
        for topic in listed:
            page = (ROOT / f"docs/{topic}.md").read_text()
            code, text, complaint = self.help(topic)
            self.assertEqual((code, complaint), (0, ""), topic)
            self.assertTrue(text.startswith(page.splitlines()[0].strip("# ").replace("`", "")), text)

    def test_commands_keep_their_help(self):
        self.assertIn("\nUsage: pgseal key rotate ", self.help("key", "rotate")[1])
        code, text, complaint = self.help("nothing")
        self.assertEqual((code, text), (2, ""))
        self.assertIn("pgseal: unrecognized subcommand 'nothing'", complaint)

    def test_the_table_of_variables_is_that_of_the_sources(self):
        """Variables between our own programs, those of tests, and of builds, are not for users."""
        contract = (ROOT / "crates/tde/contract/src/variable.rs").read_text()
        between = contract.split("between the wrappers and the library")[1]
        internal = set(re.findall(r'c"(PG\w+)"', between)) | {"PGSEAL_IN_PROCESS", "PGSEAL_BENCH_LOCK"}
        sources = [*(ROOT / "crates").rglob("src/**/*.rs"), *(ROOT / "bindings").rglob("*.java"), *(ROOT / "bindings").rglob("*.py")]
        named = {name for source in sources for name in re.findall(r'"(PGSEAL_[A-Z_]+|PGDATAKEY[A-Z]+)"', source.read_text())}
        named -= internal | {name for name in named if name.startswith("PGSEAL_TEST_")} | {"PGSEAL_BUILD", "PGSEAL_COMMIT"}
        page = (ROOT / "docs/environment.md").read_text()
        in_table = re.findall(r"^\| `(\w+)` \|", page, re.M)
        self.assertEqual(len(in_table), len(set(in_table)))
        beside = set(re.findall(r"`(PGSEAL_\w+)`", page.split("## Variables of tests and benchmarks")[1].split("\n## ")[0]))
        self.assertEqual(set(in_table) | beside, named)


class Figures(unittest.TestCase):
    def test_what_was_measured_is_readable(self):
        """Every report that is kept is one that `pgseal bench report` shows."""
        reports = sorted((ROOT / "docs/benchmarks").glob("*"))
        self.assertNotEqual(reports, [])
        for report in reports:
            shown = subprocess.run([ROOT / "dist/bin/pgseal", "bench", "report", "--wide", report], text=True, capture_output=True, check=False)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), report)
            self.assertRegex(shown.stdout, r"\| stock[ ,]", report)

    def test_the_tables_of_the_documents_are_what_was_measured(self):
        self.assertEqual(Documents(ROOT / "dist/bin/pgseal", ROOT).differences(), [])

    def test_the_page_of_published_figures_has_all_of_them(self):
        published = Published(ROOT / "dist/bin/pgseal")
        self.assertEqual(published.differences(), [])
        counts = [len(rows) for _, rows in published.tables()]
        self.assertEqual(counts, [4, 2, 6, 1 + 29, 1 + 30, 10, 40])


class ExitCodes(unittest.TestCase):
    @unittest.skipUnless(os.getuid() == 0, "only root is refused")
    def test_bench_refuses_root(self):
        command = [ROOT / "dist/bin/pgseal", "bench", "readonly", f"--pg={DEBIAN_PG}"]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Apgseal: PostgreSQL's servers do not run as root: [^\n]*setpriv[^\n]*\n\Z")


def depth(words):
    """How many words name a subcommand."""
    if words[:1] == ["client"]:
        return 3 if words[1:2] in (["key"], ["grant"], ["column"]) else 2
    return 2 if words[:1] in (["key"], ["bench"], ["receiver"]) else 1


def command_lines(text):
    """`pgseal …` in backquotes, and lines of blocks that begin with it; without what a shell would add, outside quotes."""
    text = text.replace("\\\n", " ")
    inline = [code for code in re.findall(r"`([^`\n]+)`", text) if re.match(r"pgseal [a-z]", code)]
    block = [match[1] for match in re.finditer(r"^ *(?:\$ )?(?:dist/bin/)?(pgseal [a-z].*)$", text, re.M)]
    in_blocks = [line for line in block if not re.search(r"`", line)]
    own = re.compile(r"""(?:'[^']*'|"[^"]*"|(?!\s*(?:\||&&|;|>|…|\.\.\.|-- )).)*""")
    return [own.match(line)[0] for line in inline + in_blocks]


class Sessions(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="pgseal-docs."))
        self.addCleanup(shutil.rmtree, self.directory)
        shutil.copytree(ROOT / "dist", self.directory / "dist")
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")

    def run_lines(self, script, path=""):
        """Runs a block line by line, so that the first failure ends it, as a user of a fresh login."""
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"] if os.getuid() == 0 else []
        environment = {"PATH": f"{path}/usr/local/bin:/usr/bin:/bin", "HOME": str(self.directory), "LANG": "C.UTF-8",
                       "PGDATABASE": "postgres", "PGPORT": str(self.reserved_port())}
        done = subprocess.run([*user, "bash", "-euo", "pipefail", "-c", script], env=environment, cwd=self.directory,
                              text=True, capture_output=True, errors="replace", timeout=300, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{self.server_log()}")
        return done.stdout

    def reserved_port(self):
        """A port that is given to nobody else while this is bound; PostgreSQL, by the same option, can bind it as well."""
        keeper = socket.socket()
        self.addCleanup(keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        return keeper.getsockname()[1]

    def server_log(self):
        log = self.directory / "log"
        return log.read_text()[-2000:] if log.exists() else ""

    def test_the_session_of_the_readme(self):
        session, = blocks("README.md", "sh")
        self.assertEqual(len(session.splitlines()), 11)
        for long, short in SHORTER.items():
            self.assertEqual(session.count(long), 1)
            session = session.replace(long, short)
        self.addCleanup(self.end_server)
        output = self.run_lines(session)
        self.assertRegex(output, r"number of failed transactions: 0 ")
        self.assertRegex(output, r"unlock test\W.*ok")
        self.assertFalse((self.directory / "data/postmaster.pid").exists())

    def test_the_session_stops_at_its_first_failure(self):
        """Not with `set -e` of the test, but by itself, as a user pastes it."""
        session, = blocks("README.md", "sh")
        server, = [line for line in session.splitlines() if line.startswith("pg_ctl -D data -l log")]
        output = self.run_lines(f"set +e\n{session.replace(server, 'false')}echo afterwards $?")
        self.assertIn("afterwards 1", output)
        self.assertNotIn("pgbench", output)

    def end_server(self):
        """If the session failed in the middle: by the process id that its own server wrote."""
        pid_file = self.directory / "data/postmaster.pid"
        if pid_file.exists():
            os.kill(int(pid_file.read_text().split()[0]), 3)

    def test_the_example_of_the_key_page(self):
        slots, example = blocks("docs/keys.md", "sh")
        path = f"{self.directory}/twins:{self.directory}/dist/bin:"
        self.run_lines(f"dist/bin/pgseal bindir --pg {DEBIAN_PG} --into twins")
        listed = self.run_lines(slots, path)
        self.assertEqual(re.findall(r"^slot 2: passphrase, .*$", listed, re.M), ['slot 2: passphrase, "in the safe"'] * 2)
        self.assertRegex(listed, r"users are not verified(.*\n)*.*users are verified(.*\n)*slot 1 is gone, slot 2 opens the key\n")
        self.run_lines("rm -rf data")
        output = self.run_lines(example, path)
        self.assertEqual(len(re.findall(r"^slot \d+ \(\w+\): opens$", output, re.M)), 4)
        self.assertIn("/second", output)
        self.assertNotIn("/first", output.split("slot", 1)[1])

    def test_the_page_on_losing_keys(self):
        """The commands of the page in their order; what is lost between them goes here."""
        path = f"{self.directory}/twins:{self.directory}/dist/bin:"
        self.run_lines(f"dist/bin/pgseal bindir --pg {DEBIAN_PG} --into twins")
        self.run_lines("(umask 077; openssl rand -hex 16 > everyday)\n"
                       "initdb -D data --data-encryption=256 --key-passphrase-file everyday --argon2-memory 64MiB", path)
        made, slot, copy, sheet, shares = blocks("docs/keys/losing.md", "sh")
        self.assertEqual(len(re.findall(r"^slot 1 \(passphrase\) opens", self.run_lines(made, path), re.M)), 3)
        self.assertIn("slot 1 is gone, slot 2 opens the key\n", self.run_lines(slot, path))
        self.run_lines("rm data/pg_encryption/key.bin")
        self.assertIn("opens through slot 1\n", self.run_lines(copy, path))
        for lines in (sheet, shares):
            self.assertIn("opens through slot 1\n", self.run_lines(lines, path))
            self.run_lines("openssl rand -hex 16 > new")
            self.run_lines("! pgseal key check -D data --passphrase-file new", path)


if __name__ == "__main__":
    if not (ROOT / "dist/bin/pgseal").exists():
        sys.exit("dist/bin/pgseal is missing; run make build first")
    unittest.main(verbosity=2)
