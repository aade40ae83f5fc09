#!/usr/bin/python3
"""`pgseal agent`: keys that are opened once, for all programs of one user; and whatever an agent may do wrong, the slots are tried."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import PGSEAL, Case, base_environment, main, run  # noqa: E402
from waiting import TIME_LIMIT, eventually  # noqa: E402

WARNING = ("pgseal: warning: keys may be swapped to disk, because the limit of locked memory is too low: raise LimitMEMLOCK or `ulimit -l`\n")


class OfAgent(Case):
    def setUp(self):
        super().setUp()
        self.passphrase = self.directory / "passphrase"
        self.passphrase.write_text("a passphrase for once\n")
        self.socket = self.directory / "agent"
        self.main = self.made("main")

    def made(self, name):
        key = f"--key-passphrase-file={self.passphrase}"
        return self.cluster(name, key=(key, "--argon2-memory=64MiB"), environment={"PGSEAL_AGENT": str(self.socket)}).init()

    def agent(self, *options, clusters=None, **more):
        """An agent that listens."""
        data = [word for cluster in clusters or [self.main] for word in ("-D", cluster.data)]
        command = [PGSEAL, "agent", *data, "--socket", self.socket, "--passphrase-file", self.passphrase, *options]
        agent = subprocess.Popen(command, env=base_environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, **more)
        self.addCleanup(agent.wait, TIME_LIMIT)
        self.addCleanup(agent.kill)
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.stderr.close)
        line = agent.stdout.readline()
        self.assertEqual(line, f"PGSEAL_AGENT='{self.socket}'; export PGSEAL_AGENT\n")
        return agent

    def lose(self):
        """Nobody can read the passphrase from here on, and there is no terminal to ask at."""
        self.passphrase.rename(self.directory / "kept")

    def verify(self, cluster=None, check=True, **more):
        environment = {"PGSEAL_AGENT": str(self.socket), **more}
        return run([PGSEAL, "verify", "-D", (cluster or self.main).data], environment, check=check, start_new_session=True)


class Agents(OfAgent):
    def test_what_it_opens(self):
        """A server and its commands open by it alone; two clusters stay two."""
        other = self.made("other")
        agent = self.agent(clusters=[self.main, other])
        self.lose()
        for cluster in [self.main, other]:
            self.verify(cluster)
            cluster.start()
            self.assertEqual(cluster.psql("SELECT 1"), "1")
            cluster.stop()
        started = self.main.run("pg_ctl", "-D", self.main.data, "-l", self.main.home / "log", "-w", "start")
        self.assertIn("server started", started.stdout)
        self.main.run("pg_ctl", "-D", self.main.data, "-w", "stop")
        self.main.run("pg_waldump", "-n", "1", "-p", self.main.data / "pg_wal", sorted(os.listdir(self.main.data / "pg_wal"))[0])
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(TIME_LIMIT), 0)
        self.assertFalse(self.socket.exists())
        done = self.verify(check=False)
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stderr, "passphrase")

    def test_the_audit_log_tells_agents_from_slots(self):
        self.agent()
        log = self.directory / "audit.log"
        self.verify(PGSEAL_AUDIT_LOG=str(log))
        run([PGSEAL, "key", "check", "-D", self.main.data, "--passphrase-file", self.passphrase], {"PGSEAL_AUDIT_LOG": str(log)})
        records = [json.loads(line) for line in log.read_text().splitlines()]
        unlocked = [(record["slot"], record.get("by")) for record in records if record["event"] == "unlocked"]
        self.assertEqual(unlocked, [(1, "agent"), (1, None)])

    def test_what_proves_or_changes_a_slot_does_not_ask_it(self):
        self.agent()
        self.lose()
        for arguments in [["check"], ["rotate", "--new-plain"], ["wrap", "--new-plain"], ["backup", self.directory / "b"]]:
            with self.subTest(arguments):
                done = run([PGSEAL, "key", *arguments, "-D", self.main.data], {"PGSEAL_AGENT": str(self.socket)}, check=False,
                           start_new_session=True)
                self.assertEqual(done.returncode, 6, done.stderr)
        wrong = self.directory / "wrong"
        wrong.write_text("another passphrase\n")
        done = run([PGSEAL, "verify", "-D", self.main.data, "--passphrase-file", wrong], {"PGSEAL_AGENT": str(self.socket)}, check=False)
        self.assertEqual(done.returncode, 7, "what is named is tried")

    def test_a_key_that_is_another_one(self):
        """After rekey the agent has an old key, which is not offered for the new one."""
        self.agent()
        secret = f"--key-passphrase-file={self.passphrase}"
        run([PGSEAL, "rekey", "-D", self.main.data, secret, f"--old-passphrase-file={self.passphrase}", "--argon2-memory=64MiB"])
        self.assertEqual(self.verify(PGSEAL_PASSPHRASE_FILE=str(self.passphrase)).returncode, 0)
        self.lose()
        self.assertEqual(self.verify(check=False).returncode, 6)

    def test_its_keys_are_not_swapped(self):
        """Debian's limit of locked memory, 8 MiB, has room for the keys; a limit of none makes it say that they may be swapped."""
        for limit, locked, said in [(8 << 20, True, ""), (0, False, WARNING)]:
            with self.subTest(limit=limit):
                agent = self.agent(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit)))
                self.verify()
                kib = int(re.search(r"^VmLck:\s+(\d+) kB", Path(f"/proc/{agent.pid}/status").read_text(), re.MULTILINE)[1])
                self.assertEqual(kib > 0, locked)
                self.assertLessEqual(kib, 64)
                agent.send_signal(signal.SIGTERM)
                self.assertEqual(agent.wait(TIME_LIMIT), 0)
                self.assertEqual(agent.stderr.read(), said)

    def test_its_time_is_over(self):
        agent = self.agent("--lifetime=2s")
        self.lose()
        self.verify()
        self.assertEqual(agent.wait(TIME_LIMIT), 0)
        self.assertEqual(self.verify(check=False).returncode, 6)

    def test_a_second_one(self):
        first = self.agent()
        second = run([PGSEAL, "agent", "-D", self.main.data, "--socket", self.socket, "--passphrase-file", self.passphrase], check=False)
        self.assertEqual(second.returncode, 9)
        said = f"pgseal: an agent already answers at {self.socket}: use it, or name another socket with --socket\n"
        self.assertEqual(second.stderr, said)
        first.kill()
        first.wait(TIME_LIMIT)
        self.assertTrue(self.socket.exists(), "what a killed agent leaves")
        self.agent()
        self.lose()
        self.verify()

    def test_a_socket_that_is_none(self):
        self.socket.write_text("precious")
        done = run([PGSEAL, "agent", "-D", self.main.data, "--socket", self.socket, "--passphrase-file", self.passphrase], check=False)
        self.assertEqual((done.returncode, self.socket.read_text()), (2, "precious"))
        nowhere = self.directory / "no/such"
        done = run([PGSEAL, "agent", "-D", self.main.data, "--socket", nowhere, "--passphrase-file", self.passphrase], check=False)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, "the agent cannot listen at .*No such file")

    def test_it_is_hidden(self):
        """Its memory is shown to nobody of the same user, and its socket is the user's alone."""
        agent = self.agent()
        self.assertEqual(self.socket.stat().st_mode & 0o777, 0o600)
        if os.getuid() != 0:
            with self.assertRaises(PermissionError):
                open(f"/proc/{agent.pid}/mem", "rb")  # noqa: SIM115
        self.assertNotIn("a passphrase", Path(f"/proc/{agent.pid}/cmdline").read_text())

    def test_a_command(self):
        """It has the agent as long as it runs, in a directory of its own, and its exit status is the agent's."""
        script = f'mv {self.passphrase} {self.passphrase}.kept && "$0" verify -D {self.main.data} && echo "at $PGSEAL_AGENT" && exit 7'
        command = [PGSEAL, "agent", "-D", self.main.data, "--passphrase-file", self.passphrase, "--", "sh", "-c", script, PGSEAL]
        done = run(command, check=False, start_new_session=True)
        self.assertEqual(done.returncode, 7, done.stderr)
        place = re.search("^at (.*)$", done.stdout, re.MULTILINE)[1]
        self.assertRegex(place, r"^/tmp/pgseal-agent\.\w+/pgseal-agent$")
        self.assertFalse(Path(place).parent.exists())
        done = run([*command[:-4], "/no/such/program"], check=False)
        self.assertRegex(done.stderr, "passphrase")

    def test_in_the_background(self):
        command = [PGSEAL, "agent", "-D", self.main.data, "--socket", self.socket, "--passphrase-file", self.passphrase, "--lifetime", "1h",
                   "--background"]
        done = run(command)
        self.assertEqual(done.stdout, f"PGSEAL_AGENT='{self.socket}'; export PGSEAL_AGENT\n")
        self.lose()
        self.verify()
        self.assertEqual(run(["sh", "-c", f'eval "$0"; exec "$1" verify -D {self.main.data}', done.stdout, PGSEAL]).returncode, 0)
        holder = next(int(process.name) for process in Path("/proc").iterdir()
                      if process.name.isdigit() and str(self.socket).encode() in self.command_line(process))
        os.kill(holder, signal.SIGTERM)
        eventually(lambda: not self.socket.exists())
        self.assertEqual(run(command, check=False).returncode, 6)

    @staticmethod
    def command_line(process):
        try:
            return (process / "cmdline").read_bytes()
        except OSError:
            return b""


class Impostors(OfAgent):
    """An agent that fails, or gives false answers, costs two seconds at most; then the slots are tried."""

    def impostor(self, answer):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.socket))
        listener.listen()

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()

    def assert_opens_by_the_slot(self):
        start = time.monotonic()
        self.verify(PGSEAL_PASSPHRASE_FILE=str(self.passphrase))
        self.assertLess(time.monotonic() - start, 20)

    def test_garbage(self):
        self.impostor(lambda connection: connection.sendall(os.urandom(4096)))
        self.assert_opens_by_the_slot()

    def test_silence(self):
        """It takes the request, and says nothing until the client gives up."""
        asked = []

        def listen(connection):
            while data := connection.recv(4096):
                asked.append(data)

        self.impostor(listen)
        self.assert_opens_by_the_slot()
        self.assertEqual([data[:8] for data in asked], [b"pgseala1"])

    def test_the_key_of_another_cluster(self):
        """A record that is right in form, with another cluster's key."""
        agent = self.agent(clusters=[self.made("other")])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket))
            header = (self.directory / "other/data/pg_encryption/key.bin").read_bytes()
            status = json.loads(run([PGSEAL, "status", "-D", self.directory / "other/data", "--json"]).stdout)
            cluster, key = status["cluster_id"], status["key_id"]
            self.assertIn(bytes.fromhex(cluster), header)
            client.sendall(b"pgseala1" + bytes.fromhex(cluster) + bytes.fromhex(key))
            record = b""
            while data := client.recv(65536):
                record += data
        self.assertGreater(len(record), 100)
        agent.kill()
        agent.wait(TIME_LIMIT)
        self.socket.unlink()
        self.impostor(lambda connection: connection.sendall(record))
        self.assert_opens_by_the_slot()

    def test_requests_that_are_none(self):
        """The agent drops them, and serves the next one."""
        self.agent()
        for request in [b"", b"pgseala1", os.urandom(40), b"pgseala1" + bytes(32)]:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(TIME_LIMIT)
                client.connect(str(self.socket))
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                self.assertEqual(client.recv(1), b"")
        self.lose()
        self.verify()


if __name__ == "__main__":
    main(__file__)
