#!/usr/bin/env python3
"""pgseal with several hosts: target_session_attrs finds the primary or a standby, before a failover and after it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, wrappers  # noqa: E402
from executed import ClientExec  # noqa: E402
from owners_client import USAGE  # noqa: E402
from pgseal_test import main  # noqa: E402
from waiting import eventually  # noqa: E402

IN_RECOVERY = "SELECT pg_is_in_recovery()"


class Hosts(ClientExec):
    def pair(self):
        """A primary with a table of encrypted columns, and its standby."""
        self.shop()
        primary = self.cluster_
        standby = self.cluster("standby", sealed=primary.sealed, wrappers=wrappers, pg=primary.pg, environment=dict(primary.environment))
        standby.environment["PGHOST"] = str(standby.home)
        primary.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast")
        standby.configure(f"unix_socket_directories = '{standby.home}'")
        standby.start()
        return primary, standby

    def hosts(self, primary, standby, attributes, login=" user=postgres dbname=postgres"):
        """A connection string with the standby before the primary."""
        return f"host={standby.home},{primary.home} target_session_attrs={attributes}{login}"

    def ask(self, servers, attributes, sql=IN_RECOVERY, code=0):
        """What psql prints over a proxy with these hosts."""
        return self.psql(self.proxy(self.cluster_, server=self.hosts(*servers, attributes)), sql, code=code)

    def test_the_host_that_is_wanted(self):
        servers = self.pair()
        for attributes, found in (("any", "t"), ("primary", "f"), ("read-write", "f"), ("standby", "t"), ("read-only", "t"),
                                  ("prefer-standby", "t")):
            self.assertEqual(self.ask(servers, attributes), [found], attributes)
            string = self.hosts(*servers, attributes)
            asked = ["sql", "-tA", "-d", string, IN_RECOVERY]
            self.assertEqual(self.client(self.cluster_, *asked), found + "\n", attributes)
            for options in ([], ["--in-process"]):
                printed = self.run_with(self.cluster_, "psql", "-XAtqc", IN_RECOVERY, options=[*options, "-d", string])
                self.assertEqual(printed, found + "\n", attributes)
        written = self.ask(servers, "primary", "INSERT INTO person (id, name) VALUES (1, 'secretAda') RETURNING name")
        self.assertEqual(written, ["secretAda"])
        eventually(lambda: servers[1].psql("SELECT count(*) FROM person") == "1")
        self.assertEqual(self.ask(servers, "standby", "SELECT name FROM person WHERE name = 'secretAda'"), ["secretAda"])
        refused = self.client(self.cluster_, "sql", "-d", self.hosts(*servers, "master"), "SELECT 1", code=USAGE)
        self.assertIn("is no target_session_attrs", refused)
        self.assert_never_in_clear("secret")

    def test_after_a_failover(self):
        primary, standby = self.pair()
        directory = self.proxy(primary, server=self.hosts(primary, standby, "primary"))
        readers = self.proxy(primary, server=self.hosts(primary, standby, "prefer-standby"))
        strict = self.proxy(primary, server=self.hosts(primary, standby, "standby"))
        self.assertEqual(self.psql(directory, "SHOW unix_socket_directories"), [str(primary.home)])
        primary.stop()
        said = self.psql(directory, "SELECT 1", code=2)
        self.assertRegex(said, "does not answer|target_session_attrs=primary demands")
        standby.psql("SELECT pg_promote()")
        self.assertEqual(self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda') RETURNING name"), ["secretAda"])
        self.assertEqual(self.psql(directory, "SHOW unix_socket_directories"), [str(standby.home)])
        self.assertEqual(self.psql(readers, IN_RECOVERY), ["f"])
        self.assertRegex(self.psql(strict, "SELECT 1", code=2), "does not answer|target_session_attrs=standby demands")

    def test_a_login_is_needed(self):
        primary, standby = self.pair()
        hba = primary.data / "pg_hba.conf"
        hba.write_text("local all nobody reject\n" + hba.read_text())
        primary.psql("SELECT pg_reload_conf()")
        server = self.hosts(primary, standby, "primary", " user=nobody dbname=postgres")
        said = self.psql(self.proxy(primary, server=server), "SELECT 1", code=2)
        self.assertIn("name user, password and dbname in the connection string", said)
        refused = self.client(primary, "sql", "-d", server, "SELECT 1", code=USAGE)
        self.assertIn("name user, password and dbname", refused)


if __name__ == "__main__":
    main(__file__, TOOLS)
