"""Debian's Chromium without a screen, driven over WebDriver by the standard library (imported by tests of pages).

A browser has an empty profile, reaches no network by itself, and logs every request that its page makes.
"""

import http.client
import json
import re
import subprocess

from waiting import eventually

CHROMEDRIVER = "/usr/bin/chromedriver"
# The sandbox needs rights that a container does not give; the page is our own. The others keep Chromium from calling home.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
TIME_LIMIT = 60


class Browser:
    """One window."""

    def __init__(self, profile):
        self.driver = subprocess.Popen([CHROMEDRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        self.session = None
        try:
            self.port = self._port()
            self.session = self._begin(profile)
            self.open("about:blank")
            self.requested()  # what the page of a new tab asked for
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return int(match[1])
        raise AssertionError("chromedriver ended before it listened")

    def _begin(self, profile):
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": [*OPTIONS, f"--user-data-dir={profile}"], "binary": "/usr/bin/chromium"},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        value = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        return f"/session/{value['sessionId']}"

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIME_LIMIT)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.load(answer)["value"]
        finally:
            connection.close()
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}")
        return value

    def open(self, url):
        """Loads a page, to its `load` event."""
        self._call("POST", f"{self.session}/url", {"url": url})

    def evaluate(self, function, *arguments):
        """What a JavaScript function returns; a page's policy does not keep it out."""
        body = {"script": f"return ({function})(...arguments)", "args": list(arguments)}
        return self._call("POST", f"{self.session}/execute/sync", body)

    def _element(self, selector):
        value, = self._call("POST", f"{self.session}/element", {"using": "css selector", "value": selector}).values()
        return f"{self.session}/element/{value}"

    def follow(self, selector):
        """Clicks the link or button that a CSS selector finds, and waits for the page that it leads to."""
        self.evaluate("() => { document.isLeft = true; }")
        self._call("POST", f"{self._element(selector)}/click", {})
        eventually(lambda: self.evaluate("() => !document.isLeft && document.readyState === 'complete'"), f"{selector} leads nowhere")

    def type(self, selector, text):
        """Types a text into a field, in place of what it has."""
        element = self._element(selector)
        self._call("POST", f"{element}/clear", {})
        self._call("POST", f"{element}/value", {"text": text})

    def _devtools(self, command, **parameters):
        self._call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def width(self, pixels, mobile):
        """Makes the window so wide; as a phone's, if asked to."""
        self._devtools("Emulation.setDeviceMetricsOverride", width=pixels, height=800, deviceScaleFactor=1, mobile=mobile)

    def prefer(self, scheme):
        """light or dark, as the reader's system would say."""
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def requested(self):
        """The addresses asked for since the last call."""
        entries = self._call("POST", f"{self.session}/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def complaints(self):
        """What the console holds since the last call: a page's errors, and what its policy kept out."""
        return [entry["message"] for entry in self._call("POST", f"{self.session}/se/log", {"type": "browser"})]

    def close(self):
        """Ends the browser and its driver."""
        if self.session:
            self._call("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait(TIME_LIMIT)
        self.driver.stdout.close()
