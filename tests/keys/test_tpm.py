#!/usr/bin/python3
"""Keys that a TPM seals: swtpm, with PCRs that change, values of PCRs that are signed, and another TPM in its place."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from life import Life  # noqa: E402
from pgseal_test import main, run  # noqa: E402
from provider import Provider  # noqa: E402
from requests_of_kms import PAYLOAD, Requests  # noqa: E402
from service import Service  # noqa: E402

CHANGE = "7:sha256=" + "1" * 64
CHANGED = "the TPM does not give the key, because the PCRs have other values"


class Tpm(Service):
    """A TPM whose state is in `directory`: it is the same one after close() and another Tpm() on the same directory."""

    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        # tpm2-tools look for the control channel at the port after the TPM's.
        super().__init__(["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={directory}", "--server", "type=tcp,port={},bindaddr=127.0.0.1",
                          "--ctrl", "type=tcp,port={+1},bindaddr=127.0.0.1", "--flags", "not-need-init,startup-clear"],
                         directory.with_suffix(".log"))

    def is_ready(self):
        """It serves one connection at a time, so none is tried."""
        return f":{self.port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


class OfTpm(Provider):
    def setUp(self):
        super().setUp()
        self.boot()

    def boot(self, state="tpm"):
        self.tpm = Tpm(self.directory / state)
        self.addCleanup(self.tpm.close)
        self.environment = {"TPM2TOOLS_TCTI": f"swtpm:port={self.tpm.port}"}

    def reboot(self, state="tpm"):
        self.tpm.close()
        self.boot(state)

    def tool(self, *command):
        return run(command, self.environment, cwd=self.directory).stdout


class Whole(Life, OfTpm):
    called = "TPM"

    def test_a_life(self):
        cluster, passphrase = self.a_life("tpm:")
        self.tool("tpm2_pcrextend", CHANGE)
        self.assert_fails(cluster, CHANGED)
        self.second_slot(cluster, passphrase)
        # As the sentence advises.
        self.pgseal("key", "rotate", "-D", cluster.data, "--passphrase-file", passphrase, "--new-provider", "tpm:")
        self.pgseal("key", "check", "-D", cluster.data)


class Errors(Requests, OfTpm):
    def assert_opens(self, uri, wrapped):
        done, payload = self.kms("unwrap", uri, wrapped)
        self.assertEqual((done.stderr, payload), ("", PAYLOAD))

    def test_values_of_pcrs(self):
        wrapped = self.wrap("tpm:?pcrs=0,7")
        self.assertNotIn(b"pgsealk1", wrapped)
        self.assertEqual(self.kms("age", "tpm:", wrapped)[1], b"current\n")
        self.tool("tpm2_pcrextend", CHANGE)
        self.assert_refused("tpm:?pcrs=0,7", CHANGED, wrapped)
        self.reboot()
        self.assert_opens("tpm:?pcrs=0,7", wrapped)
        # The policy is in the object: what the URI leaves out does not open it.
        self.assert_refused("tpm:?pcrs=none", CHANGED, wrapped)
        self.assert_refused("tpm:?pcrs=0", CHANGED, wrapped)

    def test_no_pcrs(self):
        wrapped = self.wrap("tpm:?pcrs=none")
        self.tool("tpm2_pcrextend", CHANGE)
        self.assert_opens("tpm:?pcrs=none", wrapped)
        self.environment = {}
        self.assert_opens(f"tpm:?pcrs=none&tcti=swtpm:port={self.tpm.port}", wrapped)

    def test_nothing_but_the_policy_opens_it(self):
        """Neither an empty password nor another policy: the object is loaded by hand."""
        wrapped = self.wrap("tpm:")
        public = 12 + int.from_bytes(wrapped[10:12], "big")
        (self.directory / "object.pub").write_bytes(wrapped[12:public])
        (self.directory / "object.priv").write_bytes(wrapped[public:])
        for command in ["tpm2_createprimary -Q -C o -G ecc -c p.ctx", "tpm2_flushcontext -t",
                        "tpm2_load -Q -C p.ctx -u object.pub -r object.priv -c object.ctx", "tpm2_flushcontext -t"]:
            self.tool(*command.split())
        done = run(["tpm2_unseal", "-c", "object.ctx"], self.environment, cwd=self.directory, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("authPolicy is not available", done.stderr)

    def test_signed_values(self):
        key, signature = self.directory / "policy.pem", self.directory / "policy.sig"
        self.tool("openssl", "genrsa", "-out", "signer.pem", "2048")
        self.tool("openssl", "rsa", "-in", "signer.pem", "-pubout", "-out", key)
        uri = f"tpm:?policy-key={key}&policy-signature={signature}"
        wrapped = self.wrap(uri)
        self.assert_refused(uri, ".*policy.sig cannot be read", wrapped)
        self.sign(signature)
        self.assert_opens(uri, wrapped)
        self.tool("tpm2_pcrextend", CHANGE)
        unsigned = ".*policy.sig does not sign the values that the PCRs have now"
        self.assert_refused(uri, unsigned, wrapped)
        self.sign(signature)
        self.assert_opens(uri, wrapped)
        # Another's key makes another policy.
        self.tool("openssl", "genrsa", "-out", "signer.pem", "2048")
        self.sign(signature)
        self.assert_refused(uri, unsigned, wrapped)
        self.tool("openssl", "rsa", "-in", "signer.pem", "-pubout", "-out", key)
        self.assert_refused(uri, CHANGED, wrapped)

    def sign(self, signature):
        """As the page says."""
        self.tool("tpm2_createpolicy", "-Q", "--policy-pcr", "-l", "sha256:7", "-L", "pcr.policy")
        # Without a resource manager this tool leaves its session in the TPM.
        self.tool("tpm2_flushcontext", "--loaded-session")
        self.tool("openssl", "dgst", "-sha256", "-sign", "signer.pem", "-out", signature, "pcr.policy")

    def test_another_tpm(self):
        wrapped = self.wrap("tpm:")
        self.reboot("other")
        self.assert_refused("tpm:", "the TPM cannot load what it sealed: .*integrity check failed", wrapped)
        self.tpm.close()
        self.assert_refused("tpm:", "the TPM cannot make its primary key: ", wrapped)

    def test_nothing_is_left_in_it(self):
        """A TPM has room for three sessions and three objects, and keeps what nobody flushes."""
        wrapped = self.wrap("tpm:")
        self.assert_opens("tpm:", wrapped)
        self.tool("tpm2_pcrextend", CHANGE)
        self.assert_refused("tpm:", CHANGED, wrapped)
        for kind in ["transient", "loaded-session", "saved-session"]:
            self.assertEqual(self.tool("tpm2_getcap", f"handles-{kind}").strip(), "", kind)

    def test_what_is_no_wrapped_key(self):
        wrapped = self.wrap("tpm:")
        for other in [b"", b"vault:v1:AAAA", wrapped[:11]]:
            self.assert_refused("tpm:", "the wrapped key is not one that the TPM made", other)
        for at in [30, len(wrapped) - 5]:
            damaged = wrapped[:at] + bytes([wrapped[at] ^ 1]) + wrapped[at + 1:]
            self.assert_refused("tpm:", "the TPM cannot load what it sealed: ", damaged)

    def test_no_tools(self):
        wrapped = self.wrap("tpm:")
        (self.directory / "sh").symlink_to("/bin/sh")
        self.environment = {"PATH": str(self.directory)}
        self.assert_refused("tpm:", "the TPM cannot be asked: tpm2_createprimary is not installed: install the package tpm2-tools", wrapped)


if __name__ == "__main__":
    main(__file__)
