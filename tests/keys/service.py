"""A service that a test runs in processes of its own, on a port of loopback."""

import os
import re
import signal
import socket
import subprocess
import time

from pgseal_test import base_environment
from waiting import TIME_LIMIT


def free_ports():
    """The first of two ports in a row that nobody has."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Service:
    """`command` with a free port, `{}` in it, and the one after it, `{+1}`; it is ready when it takes connections."""

    def __init__(self, command, log):
        self.port = free_ports()
        self.log = log
        ports = {"{}": str(self.port), "{+1}": str(self.port + 1)}
        command = [re.sub(r"\{(\+1)?\}", lambda found: ports[found[0]], part) for part in map(str, command)]
        with open(log, "w") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=base_environment(),
                                            start_new_session=True)
        self.wait()

    def wait(self):
        deadline = time.monotonic() + TIME_LIMIT
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service does not start\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def is_ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        """Ends the service and what it started, if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(TIME_LIMIT)
