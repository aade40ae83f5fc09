"""A terminal for a program under test: what it shows there, and keys that are pressed.

    terminal = Terminal()
    process = subprocess.Popen(command, **terminal.options())
    terminal.opened()
    process.wait()
    shown = terminal.close()
"""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading

from pgseal_test import TIME_LIMIT, base_environment


class Terminal:
    """What a program sees as its terminal, and all that it shows there."""

    def __init__(self):
        self.ours, self.its = pty.openpty()
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.shown = b""
        self.reader = threading.Thread(target=self.read)

    def options(self):
        """For Popen: the terminal is the session's, and the program in its foreground."""
        return {"stdin": self.its, "stderr": self.its, "start_new_session": True,
                "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}

    def opened(self):
        """The program has it."""
        os.close(self.its)
        self.reader.start()

    def read(self):
        """Until its last user has gone."""
        try:
            while True:
                self.shown += os.read(self.ours, 65536)
        except OSError:
            pass

    def press(self, keys):
        os.write(self.ours, keys)

    def echoes(self):
        """Does it show what is typed?"""
        return bool(termios.tcgetattr(self.ours)[3] & termios.ECHO)

    def close(self):
        """All that was shown."""
        self.reader.join()
        os.close(self.ours)
        return self.shown.decode()


def run_on_terminal(command, environment=None):
    """Runs a program to its end: its exit status, what it printed, and what its terminal, where its errors go, was sent."""
    terminal = Terminal()
    environment = {**base_environment(), "TERM": "xterm", **(environment or {})}
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, **terminal.options()) as process:
        terminal.opened()
        printed, _ = process.communicate(timeout=TIME_LIMIT)
    return process.returncode, printed, terminal.close()
