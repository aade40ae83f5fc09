#!/usr/bin/env python3
"""pgseal doctor on real clusters: what is good, what it advises, and what it calls wrong."""

import json
import re
import resource
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, STAGE, Case, main, run  # noqa: E402

LIBRARY = STAGE / "dist/lib/libpgseal.so"


class Doctor(Case):
    def cluster(self, name="main", **options):
        """One whose key is in no copy of it."""
        if options.get("sealed", True):
            options.setdefault("key", ("--key-file", self.directory / f"{name}.key"))
        return super().cluster(name, **options)

    def findings(self, cluster, code=0, *options):
        """What is said, by what it is about."""
        done = run([PGSEAL, "doctor", "--json", "-D", cluster.data, *options], cluster.environment, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return {found["about"]: (found["verdict"], found["text"]) for found in json.loads(done.stdout)["findings"]}

    def test_a_cluster_that_is_stopped(self):
        cluster = self.cluster().init()
        found = self.findings(cluster)
        self.assertEqual(found["library"], ("good", str(LIBRARY)))
        self.assertRegex(found["key"][1], r"^[0-9a-f]{32} opens$")
        self.assertEqual(found["key file"][0], "good")
        self.assertEqual(found["blocks"], ("good", "8 kB (supported)"))
        self.assertEqual(found["server"], ("good", "not running"))
        self.assertEqual(found["key slots"][0], "advice")
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-passphrase-file", self.passphrase("the second one")])
        self.assertEqual(self.findings(cluster)["key slots"][0], "good")

    def test_a_server(self):
        cluster = self.cluster().init().start()
        found = self.findings(cluster)
        self.assertEqual(found["server"], ("good", "runs sealed, with the library that is installed"))
        key = found["key"][1].split()[0]
        self.assertEqual((found["pin"][0], found["pin"][1].rpartition("=")[2]), ("advice", key))
        cluster.stop()
        cluster.environment["PGSEAL_EXPECT_KEY"] = key
        cluster.start()
        self.assertEqual(self.findings(cluster)["pin"][0], "good")

    def test_another_primary_under_the_same_key(self):
        cluster = self.cluster().init()
        self.assertRegex(self.findings(cluster)["other primaries"][1], "^none on this machine has the same key; other machines are not")
        copy = cluster.home / "copy"
        run(["cp", "-a", cluster.data, copy])
        verdict, text = self.findings(cluster)["other primaries"]
        self.assertEqual(verdict, "advice")
        self.assertRegex(text, f"^{copy} has the same key and is a primary too, ")
        (copy / "standby.signal").touch()
        self.assertEqual(self.findings(cluster)["other primaries"][0], "good")
        (copy / "standby.signal").rename(cluster.data / "standby.signal")
        self.assertEqual(self.findings(cluster)["other primaries"], ("good", "this cluster follows another one"))

    def test_a_checklist(self):
        """Each finding that a checklist names exists, and a point is as bad as the worst of its findings."""
        cluster = self.cluster().init().start()
        doctor = [PGSEAL, "doctor", "-D", cluster.data, "--max-age", "90d"]
        findings = {found["about"]: found for found in json.loads(run([*doctor, "--json"]).stdout)["findings"]}
        grades = ["good", "advice", "wrong"]
        for profile, shown in [("pci", {"3.5.1", "3.6.1.2", "3.7.4", "3.7.7", "6.3.3"}), ("cis", {"1.3", "2", "6.9", "8.1"})]:
            points = json.loads(run([*doctor, "--profile", profile, "--json"]).stdout)["points"]
            for point in points:
                verdicts = [found["verdict"] for found in point["evidence"]]
                self.assertEqual(point["verdict"], max(verdicts, key=grades.index, default=None), point)
                self.assertTrue(all(found == findings[found["about"]] for found in point["evidence"]))
                self.assertTrue(verdicts or point["by_hand"], point)
            self.assertLessEqual(shown, {point["number"] for point in points if point["evidence"]})
        text = run([*doctor, "--profile", "pci"]).stdout
        self.assertRegex(text, r"(?m)^advice +3\.7\.7 +keys cannot be substituted\n( +.*\n)* +pin: .*\n")
        self.assertRegex(text, r"(?m)^advice +3\.6\.1\.2 (.*\n)+? +kinds of slots: slot 1 keeps the key unencrypted in the file \S+main.key: ")
        self.assertRegex(text, r"(?m)^by hand +3\.7\.6 ")
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-plain"])
        done = run([*doctor, "--profile", "pci"], check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^WRONG +3\.6\.1\.2 ")

    def test_logs_in_the_data_directory(self):
        """They are in clear, and hold statements and rows."""
        cluster = self.cluster(conf="logging_collector = on\nlog_statement = all\n").init()
        self.assertEqual(self.findings(cluster)["clear files"], ("good", "only files of PostgreSQL"))
        self.assertEqual(self.findings(cluster)["logs"], ("good", "none in the data directory"))
        cluster.start()
        cluster.psql("SELECT 'a row'")
        cluster.stop()
        self.assertIn("a row", "".join(file.read_text() for file in (cluster.data / "log").iterdir()))
        verdict, text = self.findings(cluster)["logs"]
        self.assertEqual((verdict, text.split(":")[:2]), ("advice", ["not encrypted, and can contain statements and rows", " log/"]))
        self.assertEqual(self.findings(cluster)["clear files"], ("good", "only files of PostgreSQL"))

    def test_tablespaces_in_the_data_directory(self):
        """They are encrypted under the names of their links, as a pg_wal elsewhere is."""
        cluster = self.cluster().init().start()
        for place in ["ts", "spaces/ts"]:
            (cluster.data / place).mkdir(parents=True)
            cluster.psql(f"CREATE TABLESPACE \"{place}\" LOCATION '{cluster.data / place}'")
        cluster.stop()
        (cluster.data / "pg_wal").rename(cluster.data / "wal")
        (cluster.data / "pg_wal").symlink_to("wal")
        self.assertEqual(self.findings(cluster)["clear files"], ("good", "only files of PostgreSQL"))
        self.assertNotIn("not encrypted", run([PGSEAL, "audit", cluster.data]).stdout)
        (cluster.data / "spaces/note").write_text("a row")
        self.assertEqual(self.findings(cluster)["clear files"][1].split(":")[1], " spaces/")

    def test_a_library_that_was_replaced_under_its_server(self):
        cluster = self.cluster().init()
        installed = self.directory / "dist"
        shutil.copytree(STAGE / "dist", installed)
        cluster.bindir = self.directory / "twins"
        run([installed / "bin/pgseal", "bindir", "--pg", cluster.pg, "--into", cluster.bindir])
        cluster.start()
        self.assertEqual(self.findings(cluster)["server"][0], "good")
        library = installed / "lib/libpgseal.so"
        library.unlink()
        shutil.copy(LIBRARY, library)
        self.assertEqual(self.findings(cluster)["server"][0], "advice")

    def test_versions(self):
        """Command, library and server are of one build; without a server there is no third version."""
        cluster = self.cluster().init()
        version = run([PGSEAL, "--version"]).stdout.removeprefix("pgseal ").strip()
        self.assertRegex(version, r"^\d+\.\d+\.\d+ \(commit ([0-9a-f]{12}|unknown), release build\)$")
        evaluator = run([STAGE / "dist/bin/pgseal-evaluator", "--version"]).stdout
        self.assertEqual(evaluator, f"pgseal-evaluator {version}\n")
        self.assertEqual(self.versions(cluster), {"command": version, "library": version, "server_library": None})
        found = self.findings(cluster)
        self.assertEqual([found[about] for about in ["command", "library version"]], [("good", version)] * 2)
        self.assertNotIn("server library", found)
        cluster.start()
        self.assertEqual(self.versions(cluster), dict.fromkeys(["command", "library", "server_library"], version))
        self.assertEqual(self.findings(cluster)["server library"], ("good", version))
        text = run([PGSEAL, "status", "-D", cluster.data], cluster.environment).stdout
        for row in ["server library", "library", "pgseal"]:
            self.assertIn(f"\n{f'{row}:':<16}{version}\n", text)

    def test_a_server_that_runs_an_older_version(self):
        """An upgrade replaces the files; the server keeps its library, and its version, until it is started again."""
        cluster = self.cluster().init()
        installed = self.directory / "dist"
        shutil.copytree(STAGE / "dist", installed)
        cluster.bindir = self.directory / "twins"
        run([installed / "bin/pgseal", "bindir", "--pg", cluster.pg, "--into", cluster.bindir])
        new = run([PGSEAL, "--version"]).stdout.removeprefix("pgseal ").strip()
        old = re.sub(r"^\d", "9", new)
        library = installed / "lib/libpgseal.so"
        library.write_bytes(LIBRARY.read_bytes().replace(new.encode(), old.encode()))
        command = [installed / "bin/pgseal", "doctor", "--json"]
        found = {found["about"]: (found["verdict"], found["text"]) for found in json.loads(run(command).stdout)["findings"]}
        self.assertEqual(found["library version"], ("advice", f"{old}, but the command is {new}: install both from one build"))
        cluster.start()
        library.unlink()
        shutil.copy(LIBRARY, library)
        self.assertEqual(self.findings(cluster)["server library"], ("advice", f"{old}: restart the server to use {new}"))
        self.assertEqual(self.versions(cluster), {"command": new, "library": new, "server_library": old})
        cluster.stop()
        cluster.start()
        self.assertEqual(self.findings(cluster)["server library"], ("good", new))

    def versions(self, cluster):
        """What status says, as doctor does."""
        done = run([PGSEAL, "status", "--json", "-D", cluster.data], cluster.environment)
        said = json.loads(done.stdout)["versions"]
        doctor = run([PGSEAL, "doctor", "--json", "-D", cluster.data], cluster.environment)
        self.assertEqual(json.loads(doctor.stdout)["versions"], said)
        return said

    def test_what_is_wrong(self):
        cluster = self.cluster(key=("--key-passphrase-file", self.passphrase("the right one"))).init()
        self.assertEqual(self.findings(cluster, 0, "--passphrase-file", self.passphrase("the right one"))["key"][0], "good")
        found = self.findings(cluster, 1, "--passphrase-file", self.passphrase("the wrong one"))
        self.assertEqual(found["key"][0], "wrong")
        self.assertIn("passphrase", found["key"][1])
        plain = self.cluster("plain", sealed=False).init().start()
        shutil.copy(plain.data / "postmaster.pid", cluster.data)
        found = self.findings(cluster, 1, "--passphrase-file", self.passphrase("the right one"))
        self.assertEqual(found["server"][0], "wrong")
        done = run([PGSEAL, "doctor", "-D", plain.data], check=False)
        self.assertEqual((done.returncode, done.stdout), (4, ""))

    def test_slots_that_are_old_or_were_never_proved(self):
        cluster = self.cluster().init()
        found = self.findings(cluster)
        self.assertEqual(found["proofs"], ("advice", "it is not known that slot 1 ever opened: check it with `pgseal key check --all`"))
        self.assertNotIn("age of slots", found)
        self.assertEqual(found["page changes"], ("good", "data checksums are on"))
        run([PGSEAL, "key", "check", "-D", cluster.data])
        self.assertEqual(self.findings(cluster, 0, "--max-age", "90d")["proofs"][0], "good")
        self.assertEqual(self.findings(cluster, 0, "--max-age", "90d")["age of slots"][0], "good")
        time.sleep(1.1)
        self.assertEqual(self.findings(cluster, 1, "--max-age", "0s")["age of slots"][0], "wrong")
        run([PGSEAL, "key", "rotate", "-D", cluster.data, "--new-key-file", self.directory / "next.key"])
        self.assertEqual(self.findings(cluster, 0, "--max-age", "1h")["age of slots"][0], "good")
        notes = cluster.data / "pg_encryption/slots.bin"
        stored = notes.read_bytes()
        notes.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
        self.assertEqual(self.findings(cluster, 1)["notes about slots"][1], "pg_encryption/slots.bin was altered after it was written")

    def passphrase(self, words):
        path = self.directory / words
        path.write_text(words)
        path.chmod(0o600)
        return path

    def test_a_key_in_clear_in_the_key_file(self):
        cluster = self.cluster(key=("--no-key-wrap",)).init()
        sentence = ("slot 1 holds the master key unencrypted in key.bin, so anyone who has a copy of the data directory can read it: replace it with "
                    "`pgseal key wrap --replace`")
        self.assertEqual(self.findings(cluster, 1)["slots"], ("wrong", sentence))
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--replace", "1", "--new-key-file", self.directory / "key"])
        self.assertEqual(self.findings(cluster)["slots"], ("good", "none contains the key or a passphrase unencrypted"))
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-plain"])
        self.assertEqual(self.findings(cluster, 1)["slots"][0], "wrong")

    def test_a_passphrase_in_a_command_of_the_key_file(self):
        cipher = "openssl enc -aes-256-cbc -pbkdf2 -pass {}"
        secret = self.passphrase("secret")
        for word, verdict in [("pass:ok", "wrong"), (f"file:{secret}", "good")]:
            key = [f"--key-wrap-command={cipher.format(word)} -out %p", f"--key-unwrap-command={cipher.format(word)} -d -in %p"]
            cluster = self.cluster(verdict, key=key).init()
            self.assertEqual(self.findings(cluster, int(verdict == "wrong"))["slots"][0], verdict)
        secret.chmod(0o644)
        self.assertEqual(self.findings(cluster, 1)["secret files"][1].split()[:3], [str(secret), "has", "mode"])

    def test_files_that_others_may_read(self):
        key, words = self.directory / "main.key", self.passphrase("the second one")
        cluster = self.cluster().init()
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-passphrase-file", words])
        self.assertEqual(self.findings(cluster)["secret files"], ("good", "no other user can read them"))
        text = "{} has mode {}, so others can read or write a secret that opens the cluster: chmod 600 it"
        key.chmod(0o666)
        self.assertEqual(self.findings(cluster, 1)["secret files"], ("wrong", text.format(key, "0666")))
        key.chmod(0o600)
        words.chmod(0o644)
        self.assertEqual(self.findings(cluster, 1, "--passphrase-file", words)["secret files"], ("wrong", text.format(words, "0644")))
        self.assertEqual(self.findings(cluster)["secret files"][0], "good")
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = str(words)
        cluster.start()
        del cluster.environment["PGSEAL_PASSPHRASE_FILE"]
        self.assertEqual(self.findings(cluster, 1)["secret files"], ("wrong", text.format(words, "0644")))

    def test_memory_that_cannot_be_locked(self):
        """The server says it in its log, too."""
        cluster, said = self.cluster().init(), "pgseal: the keys cannot be locked in memory and may be written to swap: "
        cluster.start()
        self.assertRegex(self.findings(cluster)["memory"][1], "^the server's keys are locked")
        self.assertNotIn(said, cluster.log())
        cluster.stop()
        limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_MEMLOCK, limits)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, limits[1]))
        cluster.start()
        text = ("the server's keys, its master key too, are not locked and may be written to swap: raise its limit of locked memory "
                "(LimitMEMLOCK in its unit, `ulimit -l`)")
        self.assertEqual(self.findings(cluster)["memory"], ("advice", text))
        self.assertEqual(cluster.log().count(said), 1)

    def test_the_machine_alone_and_for_people(self):
        done = run([PGSEAL, "doctor"])
        self.assertRegex(done.stdout, r"(?m)^ok +library: +/\S+/libpgseal\.so$")
        self.assertRegex(done.stdout, r"(?m)^(ok|advice) +swap: ")
        self.assertNotIn("key file:", done.stdout)


if __name__ == "__main__":
    main(__file__)
