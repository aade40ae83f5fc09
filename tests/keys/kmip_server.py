"""PyKMIP's server on loopback."""

import logging
import warnings

from kmip.core.enums import CryptographicAlgorithm, CryptographicUsageMask
from kmip.pie.client import ProxyKmipClient
from service import Service

SERVE = """
import sys
from kmip.services.server.server import KmipServer
port, certificate, key, authority, directory = sys.argv[1:]
server = KmipServer(hostname="127.0.0.1", port=int(port), certificate_path=certificate, key_path=key, ca_path=authority,
                    auth_suite="TLS1.2", config_path=None, log_path=directory + "/server.log", policy_path=directory,
                    enable_tls_client_auth=True, logging_level="INFO", database_path=directory + "/keys.db")
with server:
    server.serve()
"""
# PyKMIP's client looks for settings in files that no test has, and says so.
logging.getLogger("kmip").addHandler(logging.NullHandler())
BOTH = [CryptographicUsageMask.ENCRYPT, CryptographicUsageMask.DECRYPT]


class Kmip(Service):
    """A server with the certificate `name`, whose keys lie in `directory`."""

    def __init__(self, certificates, directory, name="server"):
        directory.mkdir(exist_ok=True)
        self.certificates = certificates
        command = ["/usr/bin/python3", "-W", "ignore", "-c", SERVE, "{}", *certificates.pair(name), certificates["ca.crt"], directory]
        super().__init__(command, directory / "output")

    def client(self):
        chain, key = map(str, self.certificates.pair("client"))
        return ProxyKmipClient(hostname="localhost", port=self.port, cert=chain, key=key, ca=str(self.certificates["ca.crt"]),
                               ssl_version="PROTOCOL_TLSv1_2")

    def create(self, activate=True):
        """Makes an AES key of 256 bits and returns its identifier."""
        # PyKMIP calls what later versions of Python deprecate.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.made(activate)

    def made(self, activate):
        with self.client() as client:
            key = client.create(CryptographicAlgorithm.AES, 256, cryptographic_usage_mask=BOTH)
            if activate:
                client.activate(key)
            return key
