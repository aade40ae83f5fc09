"""Certificates of a test (imported by the tests of this directory)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import run  # noqa: E402


class Certificates:
    """Files in a directory: NAME.crt and NAME.key, each key for its user alone."""

    def __init__(self, directory):
        self.directory = directory

    def path(self, name, kind="crt"):
        return self.directory / f"{name}.{kind}"

    def self_signed(self, name, subject, *options):
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject, *options,
             "-keyout", self.path(name, "key"), "-out", self.path(name)])
        self.path(name, "key").chmod(0o600)

    def signed(self, name, subject, names="DNS:none", authority="root"):
        """A certificate by an authority."""
        self.self_signed(name, subject, "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE",
                         "-CA", self.path(authority), "-CAkey", self.path(authority, "key"))
