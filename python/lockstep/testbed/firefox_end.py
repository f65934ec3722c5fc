"""One end of a call with Firefox, as a process: `python -m lockstep.testbed.firefox_end ROLE WORK CLIP OPTIONS`.

It starts the browser, serves its page, and drives it over Marionette, the remote protocol of Firefox. `two_ends.py`
describes its input and output. It also writes files of JSON lines with the page's times (ms): `ROLE.rows`, the page's
readings; `ROLE.encoded`, the encoded frames sent or received; `ROLE.clock`, readings of the page's clock.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from lockstep.testbed.machine import now

BROWSERS = ("firefox-esr", "firefox")
CLIP = "/clip.webm"
OPEN_SECONDS = 30.0
CLOCK_READINGS = 15
SAMPLE_SECONDS = 1.0
TAKEN_AT_ONCE = 200
"""Number of encoded frames that are taken from the page at once."""
PREFERENCES = {
    # A free port; the browser writes it to its profile.
    "marionette.port": 0,
    # Use real addresses as candidates; the addresses of the emulated link are not private.
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    # Play the clip without a click.
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    # Decode the clip one second ahead instead of a third of a second.
    "media.video-queue.default-size": 30,
    # Resolution of the page's times: microseconds.
    "privacy.reduceTimerPrecision": False,
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
}


class Page(ThreadingHTTPServer):
    """Serves page and clip on this host only; browsers treat it as a secure origin."""

    daemon_threads = True

    def __init__(self, clip: Path) -> None:
        """Reads both files."""
        super().__init__(("127.0.0.1", 0), _Answer)
        files = resources.files("lockstep.testbed")
        page = (files / "page.html").read_text(encoding="utf-8")
        self.page = f"{page}<script>\n{(files / 'firefox.js').read_text(encoding='utf-8')}</script>\n".encode()
        self.clip = clip.read_bytes() if clip.suffix == ".webm" else b""
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Page)  # noqa: S101
        if self.path != CLIP:
            self._send(200, "text/html", server.page, {})
            return
        whole, asked = server.clip, self.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").split("-")[0] or 0) if asked.startswith("bytes=") else 0
        where = {"Accept-Ranges": "bytes", "Content-Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"}
        self._send(206 if asked else 200, "video/webm", whole[start:], where)

    def _send(self, status: int, kind: str, body: bytes, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        # A browser that seeks in the clip closes the connection.
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppresses the log."""


class Browser:
    """A Firefox with one page, driven over Marionette: messages are `LENGTH:[0, NUMBER, COMMAND, ARGUMENTS]`."""

    def __init__(self, profile: Path, url: str, preferences: Mapping[str, object] = MappingProxyType({})) -> None:
        """Starts the browser with `preferences` besides the usual ones, and opens the page."""
        profile.mkdir()
        preferences = {**PREFERENCES, **preferences}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
        (profile / "user.js").write_text("\n".join(lines) + "\n")
        found = next((path for path in map(shutil.which, BROWSERS) if path), None)
        if found is None:
            raise SystemExit("firefox is not installed")
        # A separate home folder protects the user's own settings.
        environment = {**os.environ, "HOME": str(profile), "MOZ_HEADLESS": "1", "MOZ_CRASHREPORTER_DISABLE": "1"}
        self._process = subprocess.Popen(  # noqa: S603
            [found, "--no-remote", "--profile", str(profile), "--marionette"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        port = self._port(profile / "MarionetteActivePort")
        with socket.create_connection(("127.0.0.1", port)) as connection:
            # The file keeps the connection open.
            self._stream = connection.makefile("rwb")
        self._receive()
        self.version = str(self.ask("WebDriver:NewSession", capabilities={})["capabilities"]["browserVersion"])
        self.ask("WebDriver:Navigate", url=url)

    def _port(self, file: Path) -> int:
        deadline = now() + OPEN_SECONDS
        while not (file.exists() and file.read_text().strip()):
            if self._process.poll() is not None:
                raise SystemExit(f"firefox ended with status {self._process.returncode}")
            if now() > deadline:
                raise SystemExit(f"firefox did not open within {OPEN_SECONDS:.0f} s")
            threading.Event().wait(0.02)
        return int(file.read_text())

    def _receive(self) -> Any:
        length = b""
        while (one := self._stream.read(1)) != b":":
            if not one:
                raise SystemExit("firefox has ended")
            length += one
        return json.loads(self._stream.read(int(length)))

    def ask(self, command: str, **arguments: object) -> Any:
        """Runs a Marionette command and returns its result."""
        self._number += 1
        message = json.dumps([0, self._number, command, arguments]).encode()
        try:
            self._stream.write(b"%d:%s" % (len(message), message))
            self._stream.flush()
            _, _, refused, answer = self._receive()
        except OSError as error:
            raise SystemExit("firefox has ended") from error
        if refused:
            raise SystemExit(f"firefox: {refused.get('message') or refused.get('error')}")
        return answer

    def call(self, function: str, *arguments: object) -> Any:
        """Calls a function of the page and waits for its result."""
        script = "const [name, words, done] = arguments; asked(name, words).then(done);"
        words = [function, json.dumps(arguments)]
        result = json.loads(self.ask("WebDriver:ExecuteAsyncScript", script=script, args=words)["value"])
        if "error" in result:
            raise SystemExit(f"firefox: {result['error']}")
        return result.get("value")

    def quit(self) -> None:
        """Ends the browser."""
        with contextlib.suppress(SystemExit):
            self.ask("Marionette:Quit", flags=["eForceQuit"])
        self._stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        if self._process.poll() is None:
            self._process.kill()


class Leaving:
    """Writes the output files of an end continuously."""

    def __init__(self, browser: Browser, role: str, work: Path) -> None:
        """Opens the files."""
        self._browser, self._role = browser, role
        self._rows, self._encoded, self._clock, self._series = (
            (work / f"{role}.{name}").open("w") for name in ("rows", "encoded", "clock", "series")
        )
        # The driver uses this file to detect that a picture was displayed.
        self._times = (work / "receiver.times").open("w") if role == "receiver" else None
        self._taken = 0

    def read_clock(self) -> None:
        """Writes readings of the page's clock."""
        for _ in range(CLOCK_READINGS):
            before = now()
            there = self._browser.call("now")
            _line(self._clock, {"took": now() - before, "at": (before + now()) / 2, "page_ms": there})

    def take(self) -> None:
        """Takes new data from the page."""
        for row in self._browser.call("take"):
            _line(self._rows, row)
            if self._times is not None and "at" in row:
                self._times.write(f"{row['width']} {row['height']} {row['at']}\n")
                self._times.flush()
        while part := self._browser.call("tapped", self._taken, self._taken + TAKEN_AT_ONCE):
            self._taken += len(part)
            for frame in part:
                _line(self._encoded, frame)

    def sample(self) -> None:
        """Takes the statistics of getStats, and the playback position of the sender's clip."""
        played = self._browser.call("played") if self._role == "sender" else None
        _line(self._series, {"at": now(), "played": played, "stats": self._browser.call("stats")})


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _line(stream: IO[str], value: object) -> None:
    stream.write(json.dumps(value) + "\n")
    stream.flush()


def call(role: str, work: Path, clip: Path, options: dict[str, Any]) -> None:
    """Runs one end until standard input ends."""
    page = Page(clip)
    browser = Browser(work / f"{role}.profile", f"http://127.0.0.1:{page.server_port}/")
    (work / f"{role}.version").write_text(browser.version)
    try:
        leaving = Leaving(browser, role, work)
        leaving.read_clock()
        if role == "sender":
            offered = browser.call("offer", {**options, "clip": CLIP, "tap": True})
            print(json.dumps({"type": "offer", "sdp": offered}), flush=True)
            browser.call("accept", json.loads(sys.stdin.readline())["sdp"])
        else:
            description = json.loads(sys.stdin.readline())["sdp"]
            answered = browser.call("answer", description, {**options, "tap": True})
            print(json.dumps({"type": "answer", "sdp": answered}), flush=True)
        ended = threading.Event()
        threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
        while not ended.wait(SAMPLE_SECONDS):
            leaving.take()
            leaving.sample()
        leaving.take()
        leaving.read_clock()
    finally:
        browser.quit()


if __name__ == "__main__":
    call(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
