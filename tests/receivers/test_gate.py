#!/usr/bin/env python3
"""Who may connect for physical replication, and what each is sent of WAL."""

import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import CHOICES, TCP, Receivers
from pgseal_test import TIME_LIMIT, main, major_version
from waiting import eventually

NOTHING = "does not say what it may receive"
UNPROVEN = NOTHING.encode()
STREAM_RAW = b"a raw session gets no WAL stream"


class Connections(Receivers):
    """What a connection shows decides before it can run a command."""

    def test_who_is_let_in(self):
        cluster = self.serve()
        good = cluster.token()
        altered = good[:-1] + ("0" if good[-1] != "0" else "1")
        refused = {
            "sealed": "no receiver token", "RAW": "no receiver token",
            altered: "not made under this cluster's key",
            cluster.token(expiry=int(time.time()) - 1): "has expired",
            cluster.token(role="repl"): "another role's",
            cluster.token(system_id=cluster.system_id() + 1): "not made under this cluster's key",
            cluster.token(master=bytes(32)): "not made under this cluster's key",
        }
        for receiver, reason in refused.items():
            with self.subTest(receiver=receiver):
                done = self.command(cluster, "IDENTIFY_SYSTEM", receiver)
                self.assertRefused(done)
                self.assertIn(reason, done.stderr)
                self.assertEqual(done.stdout, "")
        for receiver in [None, "", "raw", good]:
            done = self.command(cluster, "IDENTIFY_SYSTEM", receiver, check=True)
            self.assertIn(str(cluster.system_id()), done.stdout)
        self.assertIn(str(cluster.system_id()),
                      self.command(cluster, "IDENTIFY_SYSTEM", cluster.token(role="repl"), PGUSER="repl").stdout)

    def test_what_shows_nothing_may_only_ask(self):
        """Patroni asks for a server's timeline on connections whose options it sets itself."""
        cluster = self.serve()
        for command in ["BASE_BACKUP", "START_REPLICATION 0/1000000", "START_REPLICATION PHYSICAL 0/1000000 TIMELINE 1"]:
            for receiver in [None, ""]:
                with self.subTest(command, receiver=receiver):
                    done = self.command(cluster, command, receiver)
                    self.assertRefused(done)
                    self.assertIn(NOTHING, done.stderr)
                    self.assertEqual(done.stdout, "")

    def test_a_token_needs_a_private_connection(self):
        cluster = self.serve()
        done = self.command(cluster, "IDENTIFY_SYSTEM", cluster.token(), **TCP)
        self.assertRefused(done)
        self.assertIn("TLS or a local socket", done.stderr)
        self.assertIn(str(cluster.system_id()), self.command(cluster, "IDENTIFY_SYSTEM", "raw", **TCP).stdout)

    def test_the_twin_of_psql_asks_as_raw(self):
        """It stores no copy; its other connections declare nothing."""
        cluster = self.serve()

        def ask(command, place="replication=1", **options):
            return cluster.run("psql", "-X", "-A", "-t", "-d", f"dbname=postgres {place}", "-c", command, **options)

        for place in ["replication=1", "replication=ON", "replication='true'"]:
            self.assertIn(str(cluster.system_id()), ask("IDENTIFY_SYSTEM", place).stdout)
        self.assertRefused(ask("START_REPLICATION PHYSICAL 0/1000000", check=False), "raw")
        self.assertEqual(ask("SHOW pgseal.receiver").stdout, "raw\n")
        for place in ["replication=database", "replication=off", "application_name=replication"]:
            self.assertEqual(ask("SHOW pgseal.receiver", place).stdout, "\n")

    def test_tls_is_private_enough(self):
        cluster = self.serve_tls()
        tls = {**TCP, "PGSSLMODE": "require"}
        self.assertEqual(self.command(cluster, "IDENTIFY_SYSTEM", cluster.token(), **tls).returncode, 0)
        self.assertRefused(self.command(cluster, "START_REPLICATION 0/1000000", "raw", **tls), STREAM_RAW.decode())

    def test_a_plain_server_gates_nobody(self):
        cluster = self.serve(sealed=False)
        self.assertIn(str(cluster.system_id()), self.command(cluster, "IDENTIFY_SYSTEM").stdout)
        self.assertNotEqual(self.command(cluster, "SHOW pgseal.key_file").returncode, 0)

    def test_receivers_can_be_switched_off(self):
        """What cannot be understood was meant to; an empty value is none."""
        cluster = self.serve()
        for value, refused in [("off", "PGSEAL_RECEIVERS is off"), ("Off", "PGSEAL_RECEIVERS is `Off` and cannot be understood"), ("", None)]:
            cluster.stop()
            cluster.environment["PGSEAL_RECEIVERS"] = value
            cluster.start()
            done = self.command(cluster, "IDENTIFY_SYSTEM", cluster.token())
            if refused:
                self.assertRefused(done, refused)
            self.assertEqual(self.command(cluster, "IDENTIFY_SYSTEM", "raw").returncode, 0)
        self.assertEqual(done.returncode, 0)

    def test_the_key_file_is_shown_to_receivers(self):
        cluster = self.serve()
        stored = (cluster.data / "pg_encryption/key.bin").read_bytes()
        for replication in ["true", "database"]:
            done = self.command(cluster, "SHOW pgseal.key_file", "raw", replication, check=True)
            self.assertEqual(bytes.fromhex(done.stdout), stored)
        cluster.psql("SHOW pgseal.key_file", error="unrecognized configuration parameter")
        own = cluster.psql("SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings WHERE name LIKE 'pgseal.%'")
        self.assertEqual(own, "pgseal.key_id pgseal.sealed pgseal.version")  # what everybody may see, and no more


class Elsewhere(Receivers):
    """The setting counts as the connection's own word only."""

    def assert_nobody_is_declared(self, cluster):
        """Nothing of the latest WAL, of a backup or of a file arrives in clear."""
        place = self.write_wal(cluster)
        for command, replication in [(f"START_REPLICATION {place}", "true"), ("BASE_BACKUP (CHECKPOINT 'fast')", "database")]:
            arrived = self.bytes_of(cluster, command, replication=replication)
            self.assertIn(UNPROVEN, arrived)
            self.assertNotIn(self.mark, arrived)
        shown = cluster.psql("SELECT pg_read_binary_file(pg_relation_filepath('t'))")
        self.assertNotIn(self.mark, bytes.fromhex(shown[2:]))

    def test_in_the_configuration_file(self):
        cluster = self.serve()
        for receiver in ["raw", cluster.token()]:
            cluster.configure(f"pgseal.receiver = '{receiver}'")
            cluster.psql("SELECT pg_reload_conf()")
            self.assert_nobody_is_declared(cluster)
            cluster.stop()
            cluster.start()
            self.assert_nobody_is_declared(cluster)

    def test_on_the_command_line(self):
        cluster = self.serve()
        cluster.stop()
        cluster.start("-c", f"pgseal.receiver={cluster.token()}")
        self.assert_nobody_is_declared(cluster)

    def test_by_sql(self):
        cluster = self.serve()
        good = cluster.token()
        cluster.psql(f"ALTER SYSTEM SET pgseal.receiver = '{good}'", error="cannot be changed")
        cluster.psql(f"SET pgseal.receiver = '{good}'", error="cannot be set after connection start")
        for place in ["ROLE postgres", "DATABASE postgres", "ROLE ALL"]:
            cluster.psql(f"ALTER {place} SET pgseal.receiver = '{good}'", error="invalid value|cannot be")
        self.assert_nobody_is_declared(cluster)

    def test_in_a_file_that_alter_system_would_write(self):
        cluster = self.serve()
        with open(cluster.data / "postgresql.auto.conf", "a") as conf:
            conf.write(f"pgseal.receiver = '{cluster.token()}'\n")
        cluster.stop()
        cluster.start()
        self.assert_nobody_is_declared(cluster)


class Streams(Receivers):
    """WAL, also what 17 and 18 send out of shared memory."""

    def commands(self, place):
        return [f"START_REPLICATION {place}", f"START_REPLICATION PHYSICAL {place} TIMELINE 1;",
                f'START_REPLICATION SLOT "logical" {place}', f"START_REPLICATION\tSLOT slot PHYSICAL {place}"]

    def slots(self, cluster):
        for slot in ["slot", "logical"]:
            cluster.psql(f"SELECT pg_create_physical_replication_slot('{slot}')")

    def await_no_walsender(self, cluster):
        """Until the last one has let its slot go."""
        eventually(lambda: cluster.psql("SELECT count(*) FROM pg_stat_replication") == "0")

    def test_what_arrives(self):
        cluster = self.serve()
        self.slots(cluster)
        place = self.write_wal(cluster)
        for command in self.commands(place):
            for receiver, replication, reason in [(None, "database", UNPROVEN), ("raw", "true", STREAM_RAW),
                                                  ("raw", "database", STREAM_RAW), (None, "true", UNPROVEN)]:
                with self.subTest(command=command, receiver=receiver, replication=replication):
                    arrived = self.bytes_of(cluster, command, receiver, replication)
                    self.assertIn(reason, arrived)
                    self.assertNotIn(self.mark, arrived)
            word = self.canaries["wal"].encode()
            for replication in ["true", "database"]:
                self.assertIn(word, self.bytes_of(cluster, command, cluster.token(), replication, until=word))
                self.await_no_walsender(cluster)

    def test_what_arrives_by_tcp_without_tls(self):
        """With a token too: there it proves nothing."""
        cluster = self.serve()
        self.slots(cluster)
        place = self.write_wal(cluster)
        for receiver, replication, reason in [(None, "true", UNPROVEN), (None, "database", UNPROVEN), ("raw", "true", STREAM_RAW),
                                              (cluster.token(), "true", b"TLS or a local socket"),
                                              (cluster.token(), "database", b"TLS or a local socket")]:
            for command in self.commands(place)[:2]:
                with self.subTest(command=command, receiver=receiver, replication=replication):
                    arrived = self.bytes_of(cluster, command, receiver, replication, tcp=True)
                    self.assertIn(reason, arrived)
                    self.assertNotIn(self.mark, arrived)

    def test_wal_that_no_file_is_read_for(self):
        """17 and 18 send what is written while they stream out of shared memory, except the first: nothing of that arrives
        where it must not, and what does arrive shows that it comes so."""
        cluster = self.serve()
        for receiver, replication, reason in [(None, "true", UNPROVEN), (None, "database", UNPROVEN), ("raw", "true", STREAM_RAW)]:
            with self.subTest(receiver=receiver, replication=replication):
                end = cluster.psql("SELECT pg_current_wal_flush_lsn()")
                with self.connected(cluster, f"START_REPLICATION {end}", receiver, replication) as wire:
                    wire.settimeout(2)
                    arrived = self.heard(wire, reason)
                    self.write_wal(cluster)
                    arrived += self.heard(wire, None)
                self.assertIn(reason, arrived)
                self.assertNotIn(self.mark, arrived)
        self.assertEqual(self.read_for_what_is_sent(cluster) < 1024, major_version() >= 17)

    def read_for_what_is_sent(self, cluster):
        """How many bytes a walsender reads to send some ten thousand that are written while it streams."""
        first, last = self.canaries["first"], self.canaries["last"]
        end = cluster.psql("SELECT pg_current_wal_flush_lsn()")
        with self.connected(cluster, f"START_REPLICATION {end}", cluster.token()) as wire:
            wire.settimeout(TIME_LIMIT)
            cluster.psql(f"INSERT INTO t SELECT 0, '{first}' FROM generate_series(1, 3)")
            self.assertIn(first.encode(), self.heard(wire, first.encode()))
            before = self.read_by(cluster.psql("SELECT pid FROM pg_stat_replication"))
            cluster.psql(f"INSERT INTO t SELECT i, '{last}' FROM generate_series(1, 500) i")
            self.assertIn(last.encode(), self.heard(wire, last.encode()))
            return self.read_by(cluster.psql("SELECT pid FROM pg_stat_replication")) - before

    def read_by(self, process):
        """Bytes that a process has read so far, of files and of what else has a descriptor, except sockets."""
        return int(re.search(r"^rchar: (\d+)$", Path(f"/proc/{process}/io").read_text(), re.M)[1])

    def standby(self, cluster):
        """A running standby of it, which has its port from now on."""
        standby = self.cluster("standby")
        cluster.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast")
        self.port = self.reserved_port()
        standby.environment["PGPORT"] = str(self.port)
        standby.configure(f"port = {self.port}\nunix_socket_directories = '{standby.home}'")
        return standby.start()

    def test_a_standby_is_as_strict(self):
        """What it sends on it has from its primary, and reads from files in every version."""
        cluster = self.serve()
        standby = self.standby(cluster)
        place, word = self.write_wal(cluster), self.canaries["wal"].encode()
        eventually(lambda: standby.psql(f"SELECT count(*) FROM t WHERE word = '{word.decode()}'") == "1", lambda: standby.log()[-3000:])
        for command, receiver, replication, reason in [
            (f"START_REPLICATION {place}", None, "true", UNPROVEN), (f"START_REPLICATION {place}", "raw", "true", STREAM_RAW),
            (f"START_REPLICATION {place}", None, "database", UNPROVEN), ("BASE_BACKUP", None, "database", UNPROVEN),
        ]:
            with self.subTest(command=command, receiver=receiver, replication=replication):
                arrived = self.bytes_of(standby, command, receiver, replication)
                self.assertIn(reason, arrived)
                self.assertNotIn(self.mark, arrived)
        self.assertRefused(self.receive(standby, "pg_basebackup", "-D", self.directory / "copy"))
        self.assertIn(word, self.bytes_of(standby, f"START_REPLICATION {place}", standby.token(), until=word))

    def test_without_track_activities_nothing_arrives(self):
        """The server then reports no command, so nobody can be told why: the connection breaks, and the log says it."""
        cluster = self.serve(conf="track_activities = off\n")
        self.slots(cluster)
        place = self.write_wal(cluster)
        for command in self.commands(place):
            arrived = self.bytes_of(cluster, command, replication="database")
            self.assertNotIn(self.mark, arrived)
            self.assertNotIn(b"W\0\0\0\x07", arrived)
        self.assertEqual(cluster.log().count(UNPROVEN.decode()), len(self.commands(place)))
        word = self.canaries["wal"].encode()
        self.assertIn(word, self.bytes_of(cluster, f"START_REPLICATION {place}", cluster.token(), until=word))

    def test_stock_pg_receivewal(self):
        cluster = self.serve()
        self.write_wal(cluster)
        for number, receiver in enumerate([None, "raw", cluster.token(role="repl"), cluster.token()]):
            target = self.directory / f"wal{number}"
            target.mkdir()
            end = cluster.psql("SELECT pg_current_wal_lsn()")
            cluster.psql("INSERT INTO t VALUES (0)")  # it ends when there is WAL behind the end
            done = self.receive(cluster, "pg_receivewal", "-D", target, "--no-loop", "--endpos", end, receiver=receiver)
            if number == 3:
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("wal", self.canaries.found(target))
                continue
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, f"(?s){CHOICES}|{STREAM_RAW.decode()}")
            self.assertEqual(self.canaries.found(target), {})

    def test_logical_replication_needs_no_token(self):
        cluster = self.serve()
        self.assertEqual(self.command(cluster, "CREATE_REPLICATION_SLOT s LOGICAL test_decoding", replication="database")
                         .returncode, 0)
        self.write_wal(cluster)
        word = self.canaries["wal"].encode()
        self.assertIn(word, self.bytes_of(cluster, "START_REPLICATION SLOT s LOGICAL 0/0", replication="database", until=word))


if __name__ == "__main__":
    main(__file__)
