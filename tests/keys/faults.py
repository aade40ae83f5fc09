"""How services fail that are asked over HTTPS: each fault for each of them."""

import socket

from requests_of_kms import PAYLOAD, Requests


def cut(handler):
    """An answer that ends in its middle."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    handler.close_connection = True


class Faults(Requests):
    """Methods of a test. It has a `service` on localhost, whose stand-in is an Api; `server(certificate)` makes another with the same
    keys; `uri(port, **settings)` names a key; `called` is the service's name in messages.
    """

    def at(self, words):
        return rf"{self.called} at localhost:\d+ {words}"

    def test_the_certificate_of_another_host(self):
        wrapped = self.wrap(self.uri())
        stranger = self.server("stranger")
        self.assert_refused(self.uri(port=stranger.port), self.at("is not trusted .*certificate"), wrapped)
        self.assertEqual(stranger.requests, [])

    def test_an_authority_that_is_not_known(self):
        self.assert_refused(self.uri(ca=None), self.at("is not trusted .*certificate"), self.wrap(self.uri()))

    def test_a_redirect_does_not_get_the_token(self):
        wrapped = self.wrap(self.uri())
        other = self.server("server")
        self.service.faults.append((307, None, [("Location", f"https://localhost:{other.port}/")]))
        self.assert_refused(self.uri(), self.at("redirects to another address"), wrapped)
        self.assertEqual(other.requests, [])

    def test_a_service_that_is_away_for_a_moment(self):
        wrapped = self.wrap(self.uri())
        self.service.faults += [(503, {}), (429, None)]
        done, payload = self.kms("unwrap", self.uri(), wrapped)
        self.assertEqual((done.stderr, payload, self.service.faults), ("", PAYLOAD, []))

    def test_a_service_that_stays_away(self):
        wrapped = self.wrap(self.uri())
        self.service.faults += [(503, {})] * 1000
        self.assert_refused(self.uri(), self.at(r"refuses to \w+ \(503\): it gives no reason"), wrapped)

    def test_answers_that_are_none(self):
        wrapped = self.wrap(self.uri())
        for body in [{}, [1], None]:
            self.service.faults.append((200, body))
            self.assert_refused(self.uri(), self.at("gave an answer that is not of its documented form"), wrapped)

    def test_a_service_that_ends_in_the_middle(self):
        wrapped = self.wrap(self.uri())
        self.service.faults += [cut] * 100
        self.assert_refused(self.uri(), self.at("does not answer"), wrapped)

    def test_a_service_that_says_nothing(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        wrapped = self.wrap(self.uri())
        self.assert_refused(self.uri(port=listener.getsockname()[1]), self.at("does not answer .timeout"), wrapped)
