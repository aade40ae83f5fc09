"""moto's server, which takes the place of AWS on loopback: KMS, STS and the metadata of an instance. scripts/fetch-drivers.sh moto
installs it."""

import json
import sys
import urllib.request
from pathlib import Path

from service import Service

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "drivers"))

import places  # noqa: E402

REGION = "eu-central-1"
SIGNED = f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/kms/aws4_request, SignedHeaders=host, Signature=0"


class Moto(Service):
    """A server without keys."""

    def __init__(self, directory):
        place = places.place("moto")
        if not (place / "complete").exists():
            raise AssertionError(f"{place} is missing: run scripts/fetch-drivers.sh moto")
        super().__init__([place / "bin/moto_server", "-H", "127.0.0.1", "-p", "{}"], directory / "moto")
        self.url = f"http://127.0.0.1:{self.port}"

    def call(self, action, **body):
        """Asks KMS, as an administrator."""
        headers = {"X-Amz-Target": f"TrentService.{action}", "Content-Type": "application/x-amz-json-1.1", "Authorization": SIGNED}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def create(self):
        """Makes a symmetric key and returns what the service says of it."""
        return self.call("CreateKey")["KeyMetadata"]
