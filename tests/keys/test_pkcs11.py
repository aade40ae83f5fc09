#!/usr/bin/python3
"""Keys in a PKCS #11 device: SoftHSM, with an AES key and a pair of RSA keys that never leave it."""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from provider import PGSEAL, Provider, run  # noqa: E402
from life import Life  # noqa: E402
from pgseal_test import main  # noqa: E402
from waiting import eventually  # noqa: E402

MODULE = "/usr/lib/softhsm/libsofthsm2.so"
PIN = "482915"


class OfPkcs11(Provider):
    def setUp(self):
        super().setUp()
        tokens = self.directory / "tokens"
        tokens.mkdir()
        conf = self.directory / "softhsm2.conf"
        conf.write_text(f"directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n")
        self.environment = {"SOFTHSM2_CONF": str(conf)}
        self.tool("softhsm2-util", "--init-token", "--free", "--label", "seal", "--so-pin", "99887766", "--pin", PIN)
        self.key("--keygen", "--key-type", "AES:32", "--sensitive", "--label", "master", "--id", "01")
        self.key("--keypairgen", "--key-type", "rsa:2048", "--label", "pair", "--id", "02")
        self.pin = self.directory / "pin"
        self.pin.write_text(PIN + "\n")
        self.pin.chmod(0o600)

    def tool(self, *command):
        return run(command, self.environment)

    def key(self, *arguments):
        self.tool("pkcs11-tool", "--module", MODULE, "--token-label", "seal", "--login", "--pin", PIN, *arguments)

    def uri(self, name="master", more="", pin=True):
        source = f"&pin-source=file:{self.pin}" if pin else ""
        return f"pkcs11:token=seal;object={name}{more}?module-path={MODULE}{source}"


class OfAnAesKey(Life, OfPkcs11):
    called = "PKCS #11, AES"
    whole = True
    name = "master"

    def test_a_life(self):
        cluster, passphrase = self.a_life(self.uri(self.name))
        self.pin.unlink()
        self.assert_fails(cluster, "pin cannot be read .No such file")
        self.second_slot(cluster, passphrase)


class OfAPairOfRsaKeys(OfAnAesKey):
    called = "PKCS #11, RSA"
    whole = False
    name = "pair"


class Devices(OfPkcs11):
    def test_what_is_not_there(self):
        cluster = self.made(self.uri())
        for uri, pattern in [
            (self.uri().replace("token=seal", "token=other"), "has no token that the URI means: check token="),
            (self.uri("other"), "has no AES key and no pair of RSA keys that the URI means"),
            (self.uri().replace(MODULE, "/nowhere.so"), "/nowhere.so cannot be loaded as a driver"),
            (self.uri("pair"), "the wrapped key|has no AES key"),
            (self.uri() + "&pin-value=1", "must not contain a secret, and pin-value is one"),
            (self.uri() + "&pim=1", "has a setting pim, which pkcs11 does not take"),
        ]:
            done = self.pgseal("key", "check", "-D", cluster.data, "--key-provider", uri, check=False)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertRegex(done.stderr, pattern)

    def test_two_keys_of_one_name(self):
        """Which of them wraps must not be left to chance."""
        cluster = self.made(self.uri(more=";id=%01"))
        self.key("--keygen", "--key-type", "AES:32", "--label", "master", "--id", "03")
        self.pgseal("key", "check", "-D", cluster.data)
        done = self.pgseal("key", "check", "-D", cluster.data, "--key-provider", self.uri(), check=False)
        self.assertRegex(done.stderr, "has 2 keys that the URI means: add id=")

    def test_a_wrong_pin_is_tried_once(self):
        """A device locks itself after some wrong PINs, and a server that restarts would use them up."""
        cluster = self.made(self.uri())
        self.pin.write_text("000000\n")
        self.assert_fails(cluster, "cannot log in: the PIN is wrong; it is not tried again")
        for _ in range(3):
            self.assert_fails(cluster, "has counted a wrong PIN since its last login, and one more may lock it")
        self.pin.write_text(PIN + "\n")
        self.assert_fails(cluster, "has counted a wrong PIN since its last login")
        self.key("--list-objects")  # a login by hand
        self.pgseal("key", "check", "-D", cluster.data)

    def test_a_pin_that_others_can_read(self):
        cluster = self.made(self.uri())
        self.pin.chmod(0o644)
        self.assert_fails(cluster, "holds a secret, and other users can read it: chmod 600 it")

    def test_a_key_of_another_cluster(self):
        """The wrapping is bound to the cluster's id: a slot that is moved to another cluster opens nothing."""
        one, other = self.made(self.uri()), self.made(self.uri(), name="other")
        for cluster in [one, other]:
            cluster.stop()
        done = self.pgseal("key", "check", "-D", one.data)
        self.assertIn("opens", done.stdout)
        key_bin = one.data / "pg_encryption/key.bin"
        mine, theirs = key_bin.read_bytes(), (other.data / "pg_encryption/key.bin").read_bytes()
        self.assertEqual(len(mine), len(theirs))
        # Header and MAC of the one, slot of the other.
        key_bin.write_bytes(mine[:70] + theirs[70:-32] + mine[-32:])
        done = self.pgseal("key", "check", "-D", one.data, check=False)
        self.assertIn(done.returncode, (6, 7))
        key_bin.write_bytes(mine)
        self.pgseal("key", "check", "-D", one.data)

    def test_no_core_and_no_debugger(self):
        """pgseal-kms hides itself before it has read anything: its files in /proc are root's then, no matter who runs it."""
        command = [PGSEAL.with_name("pgseal-kms"), "unwrap", self.uri(), "0" * 32]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **self.environment})
        self.addCleanup(child.wait)
        self.addCleanup(child.stdin.close)
        limits = Path(f"/proc/{child.pid}/limits")
        eventually(lambda: re.search(r"Max core file size\s+0\s+0\s", limits.read_text()), process=child)
        self.assertEqual(os.stat(f"/proc/{child.pid}/mem").st_uid, 0)
        with self.assertRaises(PermissionError):
            Path(f"/proc/{child.pid}/environ").read_bytes()


if __name__ == "__main__":
    main(__file__)
