#!/usr/bin/python3
"""`pgseal exporter`: metrics of several clusters at once, without a key, for clients that behave and for those that do not."""

import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "keys")]
from certificates import Certificates  # noqa: E402
from pgseal_test import PGSEAL, STAGE, Case, base_environment, main, run  # noqa: E402
from waiting import TIME_LIMIT, eventually  # noqa: E402

PACKAGING = STAGE / "packaging"
PROMTOOL = shutil.which("promtool")


class Exporter:
    """A running exporter, and what it says on standard error."""

    def __init__(self, directory, *options, environment=None):
        self.said = directory / "exporter.log"
        with open(self.said, "w") as log:
            command = [PGSEAL, "exporter", "--listen", "127.0.0.1:0", *options]
            self.process = subprocess.Popen(command, stderr=log, stdout=log, stdin=subprocess.DEVNULL,
                                            env={**base_environment(), **(environment or {})})
        self.url = eventually(lambda: re.search(r"at (https?://127\.0\.0\.1:(\d+))/metrics", self.said.read_text()),
                              self.said.read_text, process=self.process)
        self.port = int(self.url[2])

    def get(self, path="/metrics", context=None):
        url = self.url[1].replace("127.0.0.1", "localhost") + path
        with urllib.request.urlopen(url, timeout=TIME_LIMIT, context=context) as answer:
            return answer.read().decode()

    def scrape(self, context=None):
        return Scrape(self.get(context=context))

    def raw(self, request):
        """Sends bytes and returns all that comes until the connection is closed; a reset closes it, too."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIME_LIMIT) as connection:
            try:
                connection.sendall(request)
                while part := connection.recv(65536):
                    answer += part
            except ConnectionError:
                pass
        return answer

    def end(self):
        self.process.terminate()
        self.process.wait(TIME_LIMIT)


def evaluators_log(path):
    """A log of docs/format/audit-log.md, without pgseal: what two sessions did, and were refused."""
    records = ['"event":"cells","session":1,"key":2,"compared":5,"hashed":1,"ranked":0',
               '"event":"cells","session":2,"key":2,"compared":6,"hashed":0,"ranked":4',
               '"event":"refused","session":1,"refusal":"PE011","count":3',
               '"event":"use","session":1,"grant":"00112233445566778899aabbccddeeff","operation":"sum","count":7',
               '"event":"use","session":2,"grant":"00112233445566778899aabbccddeeff","operation":"sum","count":2']
    head, lines = bytes(32), []
    for number, record in enumerate(records, 1):
        text = f'{{"record":{number},"time":1800000000000000,{record}'
        head = hashlib.sha256(b"pgseal audit log 1\0" + head + text.encode()).digest()
        lines.append(f'{text},"chain":"{head.hex()}"}}\n')
    path.write_text("".join(lines))
    return path


class Scrape(dict):
    """{(name, frozenset of labels): value}. The form is checked: one HELP and TYPE for each metric, samples behind them."""

    def __init__(self, text):
        super().__init__()
        self.text, known, current = text, set(), None
        for line in text.splitlines():
            if match := re.fullmatch(r"# HELP (pgseal_\w+) \S.*", line):
                current = match[1]
                assert current not in known, line
                known.add(current)
            elif not re.fullmatch(rf"# TYPE {current} (gauge|counter)", line):
                match = re.fullmatch(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\d+)', line)
                assert match and match[1] == current, line
                labels = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                assert (current, labels) not in self, line
                self[current, labels] = int(match[3])

    def names(self):
        return {name for name, _ in self}

    def value(self, name, **labels):
        """The one value with these labels; None if there is none."""
        found = [value for (known, own), value in self.items() if known == "pgseal_" + name and labels.items() <= dict(own).items()]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None


class Serves(Case):
    def exporter(self, *options, **more):
        exporter = Exporter(self.directory, *options, **more)
        self.addCleanup(exporter.end)
        return exporter

    def of(self, scrape, cluster, *names, **labels):
        return [scrape.value(name, data_directory=str(cluster.data), **labels) for name in names]

    def test_sealed_plain_stopped_and_unreadable_clusters_at_once(self):
        before = int(time.time()) - 1
        log = self.directory / "keys.log"
        audited = {"environment": {"PGSEAL_AUDIT_LOG": str(log)}}
        sealed = self.cluster("sealed", **audited).init().start()
        plain = self.cluster("plain", sealed=False).init()
        shutil.copytree(sealed.data, self.directory / "closed", ignore=shutil.ignore_patterns("postmaster.pid"))
        (self.directory / "closed").chmod(0)
        self.addCleanup((self.directory / "closed").chmod, 0o700)
        (sealed.data / "notes.txt").write_text("x")
        places = [sealed.data, plain.data, self.directory / "closed", self.directory / "none"]
        options = [option for place in places for option in ["-D", place]]
        logs = self.directory / "evaluator"
        logs.mkdir()
        evaluators_log(logs / "evaluator-1.log")
        exporter = self.exporter(*options, "--evaluator-logs", logs, **audited)
        scrape = exporter.scrape()
        self.assert_rules_name_metrics_of(scrape)
        self.assertEqual([scrape.value("evaluator_cells_total", operation=name) for name in ["compared", "hashed", "ranked"]], [11, 1, 4])
        self.assertEqual(scrape.value("evaluator_refusals_total", sqlstate="PE011"), 3)
        self.assertEqual(scrape.value("evaluator_grant_uses_total", operation="sum"), 9)
        self.assertEqual(scrape.value("evaluator_logs_readable", directory=str(logs)), 1)

        names = ["cluster_readable", "status_ok", "sealed", "server_running", "server_sealed", "clear_files"]
        self.assertEqual(self.of(scrape, sealed, *names), [1, 1, 1, 1, 1, 1])
        self.assertEqual(self.of(scrape, plain, *names), [1, 1, 0, 0, None, None])
        for place in places[2:]:
            of = {"data_directory": str(place)}
            self.assertEqual([scrape.value(name, **of) for name in names], [0, 0, None, None, None, None], place)
            self.assertEqual(scrape.value("exporter_collector_ok", collector="status", **of), 0)
            self.assertEqual(scrape.value("exporter_collector_exit_code", collector="status", **of), 3)
        self.assertEqual(scrape.value("exporter_clusters"), 4)
        self.assertRegex(exporter.said.read_text(), r"closed: no status: .*cannot be read \(Permission denied\): run this as")

        [made, proved] = self.of(scrape, sealed, "key_slot_created_timestamp_seconds", "key_slot_proved_timestamp_seconds",
                                 slot="1", kind="plain")
        self.assertTrue(before <= made <= time.time() and proved == 0)
        self.assertEqual(self.of(scrape, sealed, "doctor_findings", about="slots", verdict="wrong"), [1])
        self.assertEqual(self.of(scrape, sealed, "audit_log_records_total", event="unlocked"), [1])
        self.assertEqual(scrape.value("audit_log_ok", log=str(log)), 1)

        run([PGSEAL, "key", "check", "-D", sealed.data], audited["environment"])
        sealed.stop()
        evaluators_log(logs / "evaluator-2.log")
        scrape = exporter.scrape()
        self.assertEqual(scrape.value("evaluator_grant_uses_total", log=str(logs / "evaluator-2.log")), 9)
        self.assertEqual(self.of(scrape, sealed, "server_running", "server_sealed"), [0, None])
        [proved] = self.of(scrape, sealed, "key_slot_proved_timestamp_seconds")
        [last] = self.of(scrape, sealed, "audit_log_last_record_timestamp_seconds", event="unlocked")
        self.assertTrue(before <= proved <= time.time() and before <= last <= time.time())
        self.assertGreater(self.of(scrape, sealed, "audit_log_records_total", event="unlocked")[0], 1)
        log.write_bytes(log.read_bytes().replace(b"unlocked", b"unlucked"))
        with open(log, "a") as file:
            file.write("{}\n")
        self.assertEqual(exporter.scrape().value("audit_log_ok", log=str(log)), 0)

    def assert_rules_name_metrics_of(self, scrape):
        """The alert rules and the dashboard name metrics of a real scrape only, and labels that these have. All counters of evaluators
        have a panel."""
        board = json.loads((PACKAGING / "grafana/pgseal.json").read_text())
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        variables = [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
        rules = (PACKAGING / "prometheus/pgseal.rules.yml").read_text()
        named = set(re.findall(r"\bpgseal_\w+", " ".join(re.findall(r"expr: (.*)", rules) + expressions + variables)))
        self.assertEqual(named - scrape.names(), set())
        self.assertGreater(len(named), 20)
        evaluators = {name for name in scrape.names() if re.fullmatch(r"pgseal_evaluator_\w+_total", name)}
        self.assertEqual(evaluators - set(re.findall(r"\bpgseal_\w+", " ".join(expressions))), set(), "no panel shows them")
        labels = {label for _, own in scrape for label, _ in own} | {"instance", "severity"}
        shown = re.findall(r"\$labels\.(\w+)", rules) + re.findall(r"{{(\w+)}}", json.dumps(board))
        self.assertEqual(set(shown) - labels, set())

    @unittest.skipUnless(PROMTOOL, "promtool is in Debian's package prometheus")
    def test_rules_alert(self):
        for command in ["check", "test"]:
            file = "pgseal.rules.yml" if command == "check" else "pgseal.test.yml"
            run([PROMTOOL, command, "rules", file], cwd=PACKAGING / "prometheus")

    @unittest.skipUnless(PROMTOOL, "promtool is in Debian's package prometheus")
    def test_metrics_have_the_form_of_prometheus(self):
        exporter = self.exporter("-D", self.cluster().init().data)
        done = run([PROMTOOL, "check", "metrics"], input=exporter.get())
        self.assertEqual(done.stdout + done.stderr, "")

    def test_clients_that_do_not_behave(self):
        cluster = self.cluster().init()
        exporter = self.exporter("-D", cluster.data)
        slow = [socket.create_connection(("127.0.0.1", exporter.port)) for _ in range(8)]
        for connection in slow:
            self.addCleanup(connection.close)
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        self.assertEqual(exporter.scrape().value("sealed"), 1)
        many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 80) for number in range(200))
        self.assertRegex(exporter.raw(b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n"), rb"^HTTP/1.1 431 |^$")
        self.assertRegex(exporter.raw(b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"), b"^HTTP/1.1 405 ")
        self.assertRegex(exporter.raw(b"GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"), b"^HTTP/1.1 404 ")
        self.assertRegex(exporter.raw(b"\x16\x03\x01\x02\x00\x01"), b"^(HTTP/1.1 400 |$)")
        self.assertEqual(exporter.get("/"), "the metrics are at /metrics\n")
        started = time.monotonic()
        self.assertEqual(slow[0].recv(65536)[:12], b"")
        self.assertLess(time.monotonic() - started, 20)

    def test_many_at_once_get_the_same(self):
        cluster = self.cluster().init()
        exporter = self.exporter("-D", cluster.data)
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(exporter.get())) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(texts), len(set(texts))), (40, 1))

    def test_tls(self):
        cluster = self.cluster().init()
        made = Certificates(self.directory)
        certificate, key = made.pair("server")
        options = ["-D", cluster.data, "--tls-cert", certificate, "--tls-key", key]
        exporter = self.exporter(*options, "--tls-client-ca", made["ca.crt"])
        context = ssl.create_default_context(cafile=made["ca.crt"])
        with self.assertRaises((urllib.error.URLError, OSError)):
            exporter.scrape(context)
        context.load_cert_chain(*made.pair("client"))
        self.assertEqual(exporter.scrape(context).value("sealed"), 1)
        self.assertEqual(exporter.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")[:5].startswith(b"HTTP"), False)
        key.chmod(0o644)
        self.refused(2, r"server\.key may be read by others: chmod 600", *options)

    def test_an_address_of_the_network_needs_tls(self):
        self.refused(2, r"^pgseal: 0\.0\.0\.0:0 is no loopback address, .* or accept it by --plain-http$", "--listen", "0.0.0.0:0")
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.refused(3, "cannot be listened at .*--listen", "--listen", f"127.0.0.1:{other.getsockname()[1]}")

    def refused(self, code, message, *options):
        done = run([PGSEAL, "exporter", *options], check=False)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr.strip(), message)


if __name__ == "__main__":
    main(__file__, tools=["packaging"])
