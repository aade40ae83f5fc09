"""A relay between two unix sockets that writes down what passes, for tests that look whether something passes in clear."""

import contextlib
import socket
import threading


class Recorder:
    """Connections to the socket at `path` go on to the one at `target`; the file `record` has all bytes of both directions."""

    def __init__(self, path, target, record):
        self.target = str(target)
        self.record = open(record, "ab", buffering=0)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def close(self):
        """Ends when every connection has ended."""
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:  # which grows meanwhile
            thread.join()
        self.listener.close()
        self.record.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self._connection, args=(near,)))
                self.threads[-1].start()

    def _connection(self, near):
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(self.target)
            back = threading.Thread(target=self._pass, args=(far, near))
            back.start()
            self._pass(near, far)
            back.join()

    def _pass(self, source, sink):
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                self.record.write(block)
                sink.sendall(block)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
