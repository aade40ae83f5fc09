#!/usr/bin/env python3
"""pgjdbc's own tests, at a server and through pgseal proxy."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suites  # noqa: E402
from confidential import TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from places import place  # noqa: E402

ROLES = "SET password_encryption = 'scram-sha-256'; CREATE USER test PASSWORD 'test'"
OWNED = """DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO test', current_database()); END $$;
    ALTER SCHEMA public OWNER TO pg_database_owner; CREATE EXTENSION hstore; CREATE EXTENSION lo"""
# What the suite expects: roles that it makes authenticate in one way each, in a database that it makes.
ACCESS = """local all all trust
host all postgres 127.0.0.1/32 trust
host plain,postgres all 127.0.0.1/32 scram-sha-256
host authtest nobody 127.0.0.1/32 trust
host authtest pword 127.0.0.1/32 password
host authtest md51 127.0.0.1/32 md5
host authtest scram 127.0.0.1/32 scram-sha-256
"""
IDENTITY = re.compile(r"unique-id: (\S.*)")
# Functions in languages that are not read, and backslashes that may mean something else.
QUOTES = "[engine:junit-jupiter]/[class-template:org.postgresql.test.jdbc2.PreparedStatementTest]/[class-template-invocation:#{}]"
REFUSED = {
    suites.CODE: {"[engine:junit-jupiter]/[class:org.postgresql.test.jdbc2.BlobTransactionTest]/[method:concurrentReplace()]",
                  "[engine:junit-jupiter]/[class:org.postgresql.test.jdbc4.DatabaseMetaDataTest]/[method:getSqlTypes()]"},
    suites.BACKSLASHES: {QUOTES.format(form) + "/[method:testSingleQuotes()]" for form in (1, 2)},
}


@unittest.skipUnless(suites.LONG, "make test-drivers")
class Pgjdbc(suites.Suites):
    roles, prepared, access = ROLES, OWNED, ACCESS
    refused = REFUSED
    lists = ("authtest",)
    over_tcp = True

    def test_suite(self):
        self.compare("pgjdbc", self.junit, 9000)

    def junit(self, where, server):
        built, reports = place("pgjdbc"), self.directory / where
        properties = {"build.properties.relative.path": built / "source", "test.url.PGHOST": "127.0.0.1", "test.url.PGPORT": server.tcp,
                      "test.url.PGDBNAME": server.database, "user": "test", "password": "test", "privilegedUser": "postgres"}
        console = next((built / "jars").glob("junit-platform-console-standalone-*.jar"))
        command = ["java", "-Xmx1536m", *(f"-D{name}={value}" for name, value in properties.items()), "-jar", console, "execute",
                   "--class-path", f"{built}/main:{built}/test:" + ":".join(map(str, (built / "jars").glob("*.jar"))),
                   f"--scan-class-path={built}/test", f"--reports-dir={reports}", "--details=none", "--include-classname=.*",
                   "--config=junit.jupiter.extensions.autodetection.enabled=true", "--config=junit.jupiter.execution.timeout.default=5 m"]
        text = self.output(command, self.directory)
        outcomes = {}
        for report in reports.glob("*.xml"):
            outcomes.update(suites.of_report(report, lambda case: IDENTITY.search(case.findtext("system-out"))[1]))
        return outcomes, text


if __name__ == "__main__":
    main(__file__, TOOLS)
