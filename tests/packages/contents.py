#!/usr/bin/python3
"""What the packages hold, .deb and .rpm, by the programs in them: man pages, completions, sizes, and how programs are linked.

The packages of a format are unpacked into one directory. The list of commands comes from the help of the programs that are unpacked.
"""

import gzip
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from chroot import CACHE, PACKAGES, ROOT

SMALL = 10_000_000
# Each is run as a user runs it; what is beside pgseal are programs of its own that its subcommands start.
PROGRAMS = {"pgseal": "usr/lib/pgseal/dist/bin/pgseal", "pgseal-evaluator": "usr/bin/pgseal-evaluator"}
# What completes the last word of a command line in bash, one word a line, by the function that is registered for the program.
COMPLETE = """source "$1"; shift
read -r -a registered < <(complete -p "$1" | sed 's/.* -F //')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"${registered[0]}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf "%s\n" "${COMPREPLY[@]}"
"""
# A page of another package.
FOREIGN = {"dpkg-divert(1)"}
WARNING = ".TH broken 1\n.SH NAME\nbroken \\- refers to a string that is not defined: \\*[nothing]\n"


def unpack(file, into):
    """Unpacks a package without its scripts."""
    if file.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", file, into], check=True)
        return
    with subprocess.Popen(["rpm2cpio", file], stdout=subprocess.PIPE) as archive:
        # The names in the archive begin with a slash, which cpio says.
        subprocess.run(["cpio", "--quiet", "--no-absolute-filenames", "-idm"], stdin=archive.stdout, cwd=into, stderr=subprocess.DEVNULL, check=True)


def packages(kind):
    """The packages of a format for this machine's processor."""
    names = {"deb": ["dpkg", "--print-architecture"], "rpm": ["uname", "-m"]}
    architecture = subprocess.run(names[kind], text=True, capture_output=True, check=True).stdout.strip()
    return sorted(file for file in PACKAGES.glob(f"*.{kind}") if re.search(rf"[._]{architecture}\.{kind}$", file.name))


def page_of(words):
    """The name of a command's page."""
    return "-".join(words) + ".1"


def rendered(page):
    """A page as `man` shows it, in lines that are not filled, and what it warns of."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "1000"}
    done = subprocess.run(["man", "--warnings", "--no-hyphenation", "-l", page], env=environment, text=True, capture_output=True, check=False)
    return done.stdout, done.stderr


class Contents:
    """The tests of a format; `kind` is the ending of its packages' names, `zsh` where its distributions have completions of zsh."""
    kind = zsh = None

    @classmethod
    def setUpClass(cls):
        if not packages(cls.kind):
            raise unittest.SkipTest("there are no packages: run make packages")
        cls.tree = Path(tempfile.mkdtemp(prefix="pgseal-packages."))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        for file in packages(cls.kind):
            unpack(file, cls.tree)
        cls.commands = {}
        for program in PROGRAMS:
            cls.add_commands([program])

    @classmethod
    def add_commands(cls, words):
        """Notes the subcommands of a command, and theirs, by its help."""
        text = subprocess.run([cls.tree / PROGRAMS[words[0]], *words[1:], "--help"], text=True, capture_output=True, check=True).stdout
        section = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
        below = re.findall(r"^  (\w\S*)", section[1], re.M) if section else []
        cls.commands[tuple(words)] = [name for name in below if name != "help"]
        for name in cls.commands[tuple(words)]:
            cls.add_commands([*words, name])

    def pages(self):
        """The man pages, unpacked, by their names."""
        directory = self.tree / "pages"
        directory.mkdir(exist_ok=True)
        for file in self.tree.glob("usr/share/man/man?/*.gz"):
            self.assertEqual(file.parent.name, f"man{file.stem[-1]}")
            (directory / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        return {page.name: page for page in directory.iterdir()}

    def test_each_command_has_its_page_and_each_page_a_command(self):
        self.assertGreater(len(self.commands), 60)
        self.assertIn(("pgseal", "client", "grant", "revoke"), self.commands)
        expected = {page_of(words) for words in self.commands}
        self.assertEqual({name for name in self.pages() if name.endswith(".1")}, expected)

    def test_each_topic_has_its_page(self):
        topics = subprocess.run([self.tree / PROGRAMS["pgseal"], "help", "topics"], text=True, capture_output=True, check=True).stdout
        expected = {f"pgseal-{name}.7" for name in re.findall(r"^  (\S+)  ", topics, re.M)}
        self.assertIn("pgseal-keys.7", expected)
        self.assertEqual({name for name in self.pages() if name.endswith(".7")}, expected)

    def test_each_program_that_is_in_path_has_its_page(self):
        programs = [file for directory in ("usr/bin", "usr/sbin") for file in (self.tree / directory).iterdir()]
        self.assertIn("pgseal-divert", [file.name for file in programs])
        sections = {"bin": 1, "sbin": 8}
        self.assertEqual([file for file in programs if f"{file.name}.{sections[file.parent.name]}" not in self.pages()], [])

    def test_man_renders_each_page_without_a_warning(self):
        self.assertEqual({name: rendered(page)[1] for name, page in self.pages().items() if rendered(page)[1]}, {})
        broken = self.tree / "broken.1"
        broken.write_text(WARNING)
        self.assertIn("warning", rendered(broken)[1])

    def test_titles_have_a_date_and_name_the_source(self):
        title = re.compile(r'^\.TH (\S+) (\d) \d{4}-\d\d-\d\d "?pgseal[ .0-9]*"? "Manual of pgseal"$', re.M)
        for name, page in self.pages().items():
            found = title.search(page.read_text())
            self.assertIsNotNone(found, name)
            self.assertEqual(f"{found[1]}.{found[2]}", name)

    def test_each_reference_leads_to_a_page(self):
        pages = self.pages()
        there = {f"{name[:-2]}({name[-1]})" for name in pages}
        named = {name: set(re.findall(r"\b[a-z][a-z0-9-]*\(\d\)", rendered(page)[0])) for name, page in pages.items()}
        self.assertIn("pgseal-key-rotate(1)", named["pgseal-key.1"])
        self.assertIn("pgseal-keys(7)", named["pgseal.1"])
        self.assertEqual(set().union(*named.values()) - there, FOREIGN)

    def test_a_page_names_each_subcommand(self):
        pages = self.pages()
        for words, below in self.commands.items():
            text = rendered(pages[page_of(words)])[0] if below else ""
            for name in below:
                self.assertIn(f"{page_of([*words, name])[:-2]}(1)", text)

    def test_bash_completes_each_command(self):
        for words, below in self.commands.items():
            file = self.tree / "usr/share/bash-completion/completions" / words[0]
            for prefix, expected in (("", below), *((name[:-1], [name]) for name in below)):
                done = subprocess.run(["bash", "-c", COMPLETE, "bash", file, *words, prefix], text=True, capture_output=True, check=True)
                self.assertEqual(done.stderr, "")
                self.assertLessEqual(set(expected), set(done.stdout.split()), words)

    def test_zsh_and_fish_know_each_command(self):
        for program in PROGRAMS:
            zsh = (self.tree / "usr/share/zsh" / self.zsh / f"_{program}").read_text()
            fish = (self.tree / f"usr/share/fish/vendor_completions.d/{program}.fish").read_text()
            self.assertTrue(zsh.startswith(f"#compdef {program}\n"))
            for below in (names for words, names in self.commands.items() if words[0] == program):
                self.assertEqual([name for name in below if f"'{name}:" not in zsh and f"\"{name}:" not in zsh], [])
                self.assertEqual([name for name in below if not re.search(rf'-a "{name}"', fish)], [])

    def test_each_package_is_small(self):
        self.assertEqual({file.name: file.stat().st_size for file in packages(self.kind) if file.stat().st_size >= SMALL}, {})

    def test_no_program_knows_the_machine_that_built_it(self):
        """Neither by where it looks for libraries nor in what it prints."""
        places = [str(place).encode() for place in (ROOT, CACHE / "pg", CACHE / "packaging", Path.home() / ".cargo")]
        elves = [file for file in self.tree.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreater(len(elves), 9)
        for file in elves:
            dynamic = subprocess.run(["readelf", "-dW", file], text=True, capture_output=True, check=True).stdout
            self.assertNotRegex(dynamic, "RPATH|RUNPATH", file)
            self.assertEqual([place for place in places if place in file.read_bytes()], [], file)


class Debs(Contents, unittest.TestCase):
    kind, zsh = "deb", "vendor-completions"


class Rpms(Contents, unittest.TestCase):
    kind, zsh = "rpm", "site-functions"


if __name__ == "__main__":
    unittest.main(verbosity=2)
