"""A server on loopback that is none: it answers every request with the same bytes."""

import socket
import ssl
import threading


class Impostor:
    """It takes a request, sends `answer`, and ends the connection; `requests` keeps what it took."""

    def __init__(self, certificates, answer, tls=True):
        self.answer, self.tls, self.requests = answer, tls, []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificates.pair("server"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:  # closed
                return
            with connection:
                self.answer_one(connection)

    def answer_one(self, connection):
        try:
            stream = self.context.wrap_socket(connection, server_side=True) if self.tls else connection
            with stream:
                self.requests.append(stream.recv(65536))
                stream.sendall(self.answer)
        except OSError:  # the client has gone
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
