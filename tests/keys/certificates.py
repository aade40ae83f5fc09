"""Certificates for servers on loopback and their clients, made by openssl for one test."""

from pgseal_test import run

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
EXTENSIONS = "subjectAltName=DNS:{}\nextendedKeyUsage=serverAuth,clientAuth\n"


class Certificates:
    """An authority, a server's certificate for localhost, one for another host, and a client's; and a client's of an authority that
    nobody knows."""

    def __init__(self, directory):
        self.directory = directory
        for authority in ["ca", "other-ca"]:
            self.openssl("req", "-x509", *CURVE, "-days", "2", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key",
                         "-out", f"{authority}.crt")
        for name, host, authority in [("server", "localhost", "ca"), ("stranger", "elsewhere", "ca"), ("client", "client", "ca"),
                                      ("impostor", "client", "other-ca")]:
            self.sign(name, host, authority)

    def sign(self, name, host, authority):
        self.openssl("req", *CURVE, "-subj", f"/CN={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.directory / "extensions").write_text(EXTENSIONS.format(host))
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial",
                     "-days", "2", "-extfile", "extensions", "-out", f"{name}.crt")
        self[name + ".key"].chmod(0o600)

    def openssl(self, *arguments):
        run(["openssl", *arguments], cwd=self.directory)

    def __getitem__(self, name):
        return self.directory / name

    def pair(self, name):
        return self[name + ".crt"], self[name + ".key"]
