#!/usr/bin/env python3
"""Miniflux, a web site that it reads, and its own tests of its API, in a network of their own (run by miniflux.py).

Usage: unshare --user --map-root-user --net inside.py MINIFLUX API_TEST LOG. The environment says where the database is.
"""

import http.server
import os
import socket
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from waiting import eventually  # noqa: E402

SITE, APPLICATION = 8000, 8080
# The tests expect the first user by name to be this one.
ADMIN, PASSWORD = "admin", "horse battery staple"
# One of the tests searches for this number.
TITLES = [f"Notes on release 2.0.{number}" for number in range(4, 12)]


def chunk(kind, data):
    return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))


def icon():
    """A PNG of one grey pixel."""
    header = struct.pack("!IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


def feed():
    items = "".join(f"""<item><title>{title}</title><link>http://127.0.0.1:{SITE}/{day}</link><guid>{day}</guid>
        <pubDate>{day:02} Oct 2026 08:00:00 GMT</pubDate><author>writer{day}@example.org (Writer {day})</author>
        <comments>http://127.0.0.1:{SITE}/{day}/comments</comments><description>Paragraph {day}</description>
        <category>notes</category><enclosure url="http://127.0.0.1:{SITE}/{day}.mp3" length="9" type="audio/mpeg"/></item>"""
                    for day, title in enumerate(TITLES, 1))
    return f"""<?xml version="1.0"?><rss version="2.0"><channel><title>Miniflux</title><link>http://127.0.0.1:{SITE}/</link>
        <description>What is read</description>{items}</channel></rss>"""


HOME = """<html><head><link rel="alternate" type="application/rss+xml" title="Miniflux Releases" href="/feed.xml">
    <link rel="icon" href="/favicon.ico"></head><body>Home</body></html>"""
ARTICLE = "<html><body><article>" + "<p>A sentence that is long enough to be the text of a page, and not of its margin.</p>" * 20 + "</article></body></html>"


class Site(http.server.BaseHTTPRequestHandler):
    PAGES = {"/": ("text/html", HOME.encode()), "/feed.xml": ("application/rss+xml", feed().encode()), "/favicon.ico": ("image/png", icon())}

    def do_GET(self):  # pylint: disable=invalid-name
        kind, content = self.PAGES.get(self.path, ("text/html", ARTICLE.encode()))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def reached(port):
    """Whether somebody listens at the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def tested(program):
    """Runs the tests; their exit code."""
    at = {"BASE_URL": f"http://127.0.0.1:{APPLICATION}", "ADMIN_USERNAME": ADMIN, "ADMIN_PASSWORD": PASSWORD,
          "FEED_URL": f"http://127.0.0.1:{SITE}/feed.xml", "WEBSITE_URL": f"http://127.0.0.1:{SITE}/"}
    environment = os.environ | {f"TEST_MINIFLUX_{name}": value for name, value in at.items()}
    return subprocess.run([program, "-test.v", "-test.count=1", "-test.parallel=4", "-test.timeout=300s"], env=environment, check=False).returncode


def run(miniflux, test, log):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    site = http.server.ThreadingHTTPServer(("127.0.0.1", SITE), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    settings = {"LISTEN_ADDR": f"127.0.0.1:{APPLICATION}", "BASE_URL": f"http://127.0.0.1:{APPLICATION}", "CREATE_ADMIN": "1",
                "ADMIN_USERNAME": ADMIN, "ADMIN_PASSWORD": PASSWORD, "FETCHER_ALLOW_PRIVATE_NETWORKS": "1",
                "INTEGRATION_ALLOW_PRIVATE_NETWORKS": "1", "DISABLE_SCHEDULER_SERVICE": "1"}
    with open(log, "w") as file, subprocess.Popen([miniflux], env=os.environ | settings, stdout=file, stderr=file) as application:
        try:
            eventually(lambda: reached(APPLICATION), process=application)
            return tested(test)
        finally:
            application.terminate()


# Not a program of tests by itself.
if __name__ == "__main__" and sys.argv[1:]:
    sys.exit(run(*sys.argv[1:4]))
