#!/usr/bin/env python3
"""Tokens, and what they open, leave a receiver over TLS or a local socket only, no matter who answers for the server."""

import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import TCP, Receivers
from pgseal_test import STAGE, TIME_LIMIT, base_environment, main, run
from waiting import eventually

TOKEN = re.compile(rb"v1\.[0-9]+\.\w+\.[0-9a-f]{32}")
WANTED = ("server does not support SSL, but SSL was required", "set ssl = on at the server, and connect with sslmode=verify-full")
ASKS_FOR_TLS, ASKS_FOR_GSS = 80877103, 80877104


class Man(threading.Thread):
    """In the middle: says to the client that there is no TLS, speaks TLS to a server that has it, and keeps what passes."""

    def __init__(self, port, tls):
        super().__init__(daemon=True)
        self.server, self.tls, self.seen = port, tls, bytearray()
        self.door = self.listen()
        self.start()

    def listen(self):
        door = socket.create_server(("127.0.0.1", 0))
        self.port = door.getsockname()[1]
        return door

    def run(self):
        while True:
            try:
                client = self.door.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.stand_between, args=(client,), daemon=True).start()

    def stand_between(self, client):
        with client:
            if (start := self.start_packet(client)) is None:
                return
            with self.dial() as server:
                server.sendall(start)
                back = threading.Thread(target=self.pass_on, args=(server, client), daemon=True)
                back.start()
                self.pass_on(client, server)
                back.join(TIME_LIMIT)

    def start_packet(self, client):
        """What the client says when it has heard that there is no encryption; None if it leaves then."""
        while head := client.recv(8, socket.MSG_WAITALL):
            length, code = struct.unpack(">II", head)
            if code not in (ASKS_FOR_TLS, ASKS_FOR_GSS):
                packet = head + client.recv(length - 8, socket.MSG_WAITALL)
                self.seen += packet
                return packet
            client.sendall(b"N")
        return None

    def dial(self):
        server = socket.create_connection(("127.0.0.1", self.server))
        if not self.tls:
            return server
        server.sendall(struct.pack(">II", 8, ASKS_FOR_TLS))
        assert server.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(server)

    def pass_on(self, source, target):
        try:
            while part := source.recv(1 << 16):
                self.seen += part
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Relay(Man):
    """Between two local sockets, where a token may go: keeps the tokens that clients start with, and can hang up on them."""

    def __init__(self, directory, server):
        self.door_path, self.server_path = directory / server.name, server
        self.tokens, self.live, self.pause = [], [], 0
        super().__init__(None, tls=False)

    def listen(self):
        door = socket.socket(socket.AF_UNIX)
        door.bind(str(self.door_path))
        door.listen()
        return door

    def dial(self):
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self.server_path))
        self.live.append(server)
        return server

    def start_packet(self, client):
        packet = super().start_packet(client)
        self.tokens += TOKEN.findall(packet or b"")[-1:]  # the last one counts
        time.sleep(self.pause)
        return packet

    def hang_up(self):
        for server in self.live:
            try:
                server.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has gone by itself


class Wire(Receivers):
    """Receivers that think they speak to a server over TCP."""

    def between(self, tls=True):
        """(a server, with TLS or without, and the man before its port)"""
        cluster = self.serve_tls() if tls else self.serve()
        man = Man(self.port, tls)
        self.addCleanup(man.door.close)
        return cluster, man

    def wait_for_log(self, cluster, sentence):
        eventually(lambda: sentence in cluster.log(), lambda: cluster.log()[-3000:])

    def standby(self, cluster):
        """A copy that has come over the local socket, and is to follow."""
        standby = self.cluster("standby")
        cluster.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast")
        return standby

    def assert_nothing_seen(self, man, done, sentences=WANTED):
        """It failed with the sentences, and the man is none the wiser."""
        self.assertNotEqual(done.returncode, 0, done.stdout[-2000:])
        for sentence in sentences:
            self.assertIn(sentence, done.stderr)
        self.assert_unseen(man)

    def assert_unseen(self, man):
        self.assertEqual((TOKEN.findall(man.seen), man.seen.count(self.mark)), ([], 0))

    def try_all(self, cluster, man, **environment):
        """Every program that shows a token, with its own and with a granted one."""
        here = {"PGHOST": "127.0.0.1", "PGPORT": str(man.port), **environment}
        granted = {**here, "PGOPTIONS": f"-c pgseal.receiver={cluster.token()}"}
        (self.directory / "wal").mkdir()
        for number, (place, command) in enumerate([
            (here, ["pg_basebackup", "-c", "fast", "-D"]), (here, ["pg_basebackup", "-c", "fast", "-Ft", "-D"]),
            (here, ["pg_receivewal", "--no-loop", "-D", self.directory / "wal"]),
        ]):
            with self.subTest(command=command):
                target = [self.directory / f"copy{number}"] if command[-1] == "-D" else []
                self.assert_nothing_seen(man, cluster.run(*command, *target, environment=place, check=False))
        self.assertIn(b"pgseal.receiver=raw", man.seen)  # the twins have asked for the key
        own = ["--data-encryption", "--no-key-wrap", "-D", self.directory / "own"]
        done = cluster.run("pg_basebackup", "-c", "fast", *own, environment=granted, check=False)
        self.assert_nothing_seen(man, done, WANTED[:1])
        self.try_standby(cluster, man, here)

    def try_standby(self, cluster, man, here):
        """Its walreceiver, and pg_rewind, which tell the server by a connection string."""
        standby = self.standby(cluster)
        place = f"host=127.0.0.1 port={man.port} user=postgres"
        (standby.data / "postgresql.auto.conf").write_text("")
        standby.configure(f"primary_conninfo = '{place} sslmode=prefer'\nport = {self.reserved_port()}\n"
                          f"unix_socket_directories = '{standby.home}'")
        standby.start()
        for sentence in WANTED:
            self.wait_for_log(standby, sentence)
        self.assert_unseen(man)
        standby.stop()
        done = standby.run("pg_rewind", "-D", standby.data, f"--source-server={place}", environment=here, check=False)
        self.assert_nothing_seen(man, done)

    def test_nobody_strips_tls(self):
        cluster, man = self.between()
        self.try_all(cluster, man)
        granted = {"receiver": cluster.token(), "PGHOST": "127.0.0.1", "PGPORT": str(man.port)}
        leaky = self.receive(cluster, "pg_basebackup", "-D", self.directory / "stock", "-X", "none", "-c", "fast", **granted)
        self.assertEqual(leaky.returncode, 0, leaky.stderr)
        self.assertTrue(TOKEN.findall(man.seen) and self.mark in man.seen)

    def test_a_server_without_tls(self):
        cluster, man = self.between(tls=False)
        self.try_all(cluster, man, PGSSLMODE="disable")

    def test_wherever_the_mode_is_said(self):
        """The string that pg_rewind connects with, a URI, a service, the environment; what is stronger stays."""
        cluster, man = self.between()
        target = self.standby(cluster)
        services = self.directory / "services"
        services.write_text(f"[weak]\nhost=127.0.0.1\nport={man.port}\nuser=postgres\nsslmode=allow\n")
        place = f"host=127.0.0.1 port={man.port} user=postgres"
        for source, environment in [
            (f"{place} sslmode=disable", {}), (place, {"PGSSLMODE": "disable"}), (f"{place} requiressl=0", {}),
            (f"postgresql://postgres@127.0.0.1:{man.port}/?sslmode=prefer", {}),
            ("service=weak", {"PGSERVICEFILE": str(services)}),
            ("user=postgres", {"PGSERVICE": "weak", "PGSERVICEFILE": str(services)}),
        ]:
            with self.subTest(source=source):
                rewind = ["pg_rewind", "-D", target.data, f"--source-server={source}"]
                self.assert_nothing_seen(man, target.run(*rewind, environment=environment, check=False))
        for mode in ["verify-ca", "verify-full"]:
            source = f"host=127.0.0.1 port={self.port} user=postgres sslmode={mode}"
            done = target.run("pg_rewind", "-D", target.data, f"--source-server={source}", check=False)
            self.assertIn("root certificate file", done.stderr)

    def test_over_tls(self):
        """Where nobody is between, the default is enough, and a standby is told to ask for TLS."""
        cluster, _ = self.between()
        standby = self.cluster("standby")
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port)}
        cluster.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", environment=place)
        self.assertIn("sslmode=require", (standby.data / "postgresql.auto.conf").read_text())
        standby.configure(f"port = {self.reserved_port()}\nunix_socket_directories = '{standby.home}'")
        standby.start()
        self.wait_for_log(standby, "started streaming WAL")
        shown = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"
        self.assertEqual(cluster.psql(shown), "t")
        self.assertNotIn("pgseal: a receiver token", standby.log())

    def test_a_libpq_without_tls(self):
        """A local socket will do for it. By whatever else it would connect, it shows no token."""
        cluster, man = self.between()
        library = self.directory / "without_tls.so"
        run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAGE / "tests/receivers/without_tls.c", "-ldl"])
        without = {"LD_PRELOAD": str(library)}
        for number, source in enumerate(["", f"host={cluster.home}", f"host={cluster.home},{cluster.home}"]):
            copy = self.directory / f"copy{number}"
            cluster.run("pg_basebackup", "-c", "fast", "-d", source, "-D", copy, environment=without)
            self.assertTrue((copy / "pg_encryption/key.bin").exists())
        sentences = ["SSL support is not compiled in", "this program's libpq was built without TLS: connect over a local socket"]
        services = self.directory / "services"
        services.write_text(f"[man]\nhost=127.0.0.1\nport={man.port}\n")
        elsewhere = {**without, "PGPORT": str(man.port), "PGSERVICEFILE": str(services)}
        for source in ["host=127.0.0.1", f"host={self.directory},127.0.0.1", f"host={self.directory} hostaddr=127.0.0.1", "service=man",
                       f"postgresql://127.0.0.1:{man.port}/"]:
            with self.subTest(source=source):
                command = ["pg_basebackup", "-c", "fast", "-D", self.directory / "none", "-d", source]
                done = cluster.run(*command, environment=elsewhere, check=False)
                self.assert_nothing_seen(man, done, sentences)

    def relay(self, cluster):
        """Beside the server's socket, one that is ours: (the relay, what leads a client to it)"""
        place = self.directory / "relay"
        place.mkdir()
        relay = Relay(place, Path(cluster.home) / f".s.PGSQL.{self.port}")
        self.addCleanup(relay.door.close)
        return relay, {"PGHOST": str(place)}

    def expiries(self, relay, wanted):
        """When the tokens expire that clients came with, once there are so many; in seconds"""
        eventually(lambda: len(relay.tokens) >= wanted, lambda: str(relay.tokens))
        return [int(token.split(b".")[1]) for token in relay.tokens]

    def test_a_token_for_each_connection(self):
        """pg_receivewal connects again for as long as it runs, longer than a token lasts."""
        cluster = self.serve()
        relay, place = self.relay(cluster)
        (self.directory / "wal").mkdir()
        command = [cluster.bindir / "pg_receivewal", "-D", self.directory / "wal"]
        log = open(self.directory / "receivewal.log", "w")
        receiver = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**base_environment(), **cluster.environment, **place})
        cluster.sessions.append(receiver)
        self.expiries(relay, 1)
        eventually(lambda: cluster.psql("SELECT state FROM pg_stat_replication") == "streaming")
        relay.hang_up()
        first, second = self.expiries(relay, 2)
        self.assertGreater(second, first)

    def test_a_token_for_the_second_connection(self):
        """A copy fetches its WAL by one of its own, when the checkpoint is over."""
        cluster = self.serve()
        relay, place = self.relay(cluster)
        relay.pause = 2
        for number, (options, wanted) in enumerate([([], 2), (["-Ft"], 1)]):
            with self.subTest(options=options):
                relay.tokens.clear()
                asked = time.time()
                cluster.run("pg_basebackup", "-c", "fast", *options, "-D", self.directory / f"copy{number}", environment=place)
                expiries = self.expiries(relay, wanted)
                self.assertEqual(len(set(expiries)), wanted)
                self.assertGreater(max(expiries) + 1, asked + 3600 + 2 * relay.pause)  # whole seconds; psql was first

    def test_raw_goes_anywhere(self):
        """Ciphertext needs no TLS; a token that is beside the word does."""
        cluster, man = self.between(tls=False)
        place = {**TCP, "PGPORT": str(man.port)}
        command = ["pg_basebackup", "-Ft", "-X", "fetch", "-c", "fast", "-D"]
        cluster.run(*command, self.directory / "raw", environment=place)
        self.assert_unseen(man)
        granted = {**place, "PGOPTIONS": f"-c pgseal.receiver={cluster.token()}"}
        done = cluster.run(*command, self.directory / "both", environment=granted, check=False)
        self.assert_nothing_seen(man, done, WANTED[:1])


if __name__ == "__main__":
    main(__file__)
