"""Calls between the command and a page in Chromium, and the WebAssembly module alone in Node."""

import base64
import contextlib
import ctypes
import functools
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import threading
import time
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.command import lockstep_command
from lockstep.testbed import chromium, firefox, firefox_end

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "crates/web"
MODULE = CRATE / "page/lockstep.wasm"
LINK = re.compile(r"(http://127\.0\.0\.1:\d+/)#(LOCKSTEP-[A-Z2-7]+)")
TICKET = re.compile(r"LOCKSTEP-[A-Z2-7]{80,}")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MAX_BYTES = 1_000_000
"""Bytes of the page with all that it loads."""
SECONDS = 20.0
"""Time limit for what takes about a second on an idle machine."""
# Ignore warnings of modules that are imported late.
pytestmark = pytest.mark.filterwarnings("default")


def run(words: list[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=check, capture_output=True, text=True)  # noqa: S603


def command() -> str:
    try:
        path = lockstep_command()
        listed = run([path, "talk", "--help-all"], check=False)
    except (OSError, ValueError) as error:
        pytest.skip(str(error))
    if "--web" not in listed.stdout:
        pytest.skip("the command has no --web")
    return path


@dataclass
class Process:
    """A running command, and what it printed."""

    process: subprocess.Popen[str]
    output: Path

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def find(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first match in the output."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if found := pattern.search(self.text()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        message = f"{pattern.pattern} is not in:\n{self.text()}"
        raise AssertionError(message)


@contextlib.contextmanager
def running(folder: Path, *words: str) -> Iterator[Process]:
    """Runs the command with `words`, and ends it."""
    output = folder / f"{words[0]}-{time.monotonic_ns()}.txt"
    environment = {**os.environ, "LOCKSTEP_HOME": str(folder / "home")}
    with output.open("w") as file:
        process = subprocess.Popen(  # noqa: S603
            [command(), *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
    try:
        yield Process(process, output)
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Browser:
    """A browser, and the messages of its pages."""

    context: Any
    console: list[str] = field(default_factory=list)

    def open(self, link: str) -> Any:
        page = self.context.new_page()
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        page.goto(link)
        page.wait_for_selector("#status:not(:has-text('Loading'))")
        return page


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if lacking := chromium.missing():
        pytest.skip(lacking)
    command()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - from an extra

    path = next(found for name in chromium.BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=path, headless=True, args=list(ARGUMENTS)
        )
        context.set_default_timeout(SECONDS * 1e3)
        browser = Browser(context)
        yield browser
        context.close()
        errors = [message for message in browser.console if message.startswith("error")]
        # Chromium reports a session that ended as an error.
        assert [message for message in errors if "establish a connection" not in message] == []


def joined(page: Any, button: str = "#join") -> None:
    page.click(button)
    page.wait_for_selector("body[data-state=call]")


def statistics(page: Any) -> Any:
    return page.evaluate("window.lockstepCall.statistics()")


TALK = ("talk", "--web", "--source", "generated:320x180@30", "--no-window", "--listen", "127.0.0.1:0")


def until(page: Any, holds: Callable[[Any], bool]) -> Any:
    """Statistics of the page's call once `holds` accepts them."""
    limit = time.monotonic() + SECONDS
    while True:
        found = statistics(page)
        if found and holds(found):
            return found
        assert time.monotonic() < limit, found
        page.wait_for_timeout(200)


def is_talking(found: Any) -> bool:
    return bool(found["counters"]["shown"] > 20 and found["sending"][0]["frames"] > 20)


def test_page_talks_both_ways_with_sound(tmp_path: Path, browser: Browser) -> None:
    heard = tmp_path / "heard.wav"
    words = (*TALK, "--audio", "tone", "--audio-output", str(heard))
    with running(tmp_path, *words) as talk:
        page = browser.open(talk.find(LINK)[0])
        joined(page)
        until(page, is_talking)
        # The share includes the start of the call, before the playout delay fits the path.
        found = until(page, lambda now: now["sound"]["packets"] > 50 and now["sound"]["concealedShare"] < 0.2)
        assert found["sending"][0]["limitedBy"] is not None
        # Chromium's fake microphone beeps once per second.
        page.wait_for_timeout(4_000)
        page.click("#leave")
        page.wait_for_selector("body[data-state=lobby]")
        assert page.inner_text("#status") == "The call is over."
        talk.process.wait(SECONDS)
    with wave.open(str(heard)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    assert np.abs(samples.astype(int)).max() > 1_000


def codecs() -> list[str]:
    """Codecs of `send`; AV1 takes the libraries of the system."""
    libraries = ("libaom.so.3", "libdav1d.so.6")
    return ["functional"] + (["av1"] if all(map(has_library, libraries)) else [])


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("codec", codecs())
def test_page_watches_a_sender(tmp_path: Path, browser: Browser, codec: str) -> None:
    words = ("--source", "generated:321x181@30", "--listen", "127.0.0.1:0", "--codec", codec)
    with running(tmp_path, "send", "--web", *words) as send:
        page = browser.open(send.find(LINK)[0])
        joined(page, "#watch")
        found = until(page, lambda now: now["counters"]["shown"] > 20)
        assert found["sending"] == []
        assert not page.is_visible("#mute")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the files of ``folder`` are served."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.skipif("av1" not in codecs(), reason="no libaom or dav1d")
def test_page_that_gets_no_planes_refuses_av1(tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "page"
    shutil.copytree(MODULE.parent, folder)
    worker = folder / "worker.js"
    pixels_only = "Object.defineProperty(VideoFrame.prototype, 'format', { get: () => 'BGRX' });\n"
    worker.write_text(pixels_only + worker.read_text())
    words = ("--source", "generated:320x180@30", "--listen", "127.0.0.1:0", "--codec", "av1")
    with served(folder) as address, running(tmp_path, "send", "--web", *words) as send:
        page = browser.open(f"{address}#{send.find(LINK)[2]}")
        page.click("#watch")
        page.wait_for_selector("#status:has-text('what this browser cannot show')")
        send.process.wait(SECONDS)
        assert send.process.returncode == 1
        assert "the decoder of this codec" in send.text()


def test_page_sends_to_a_receiver(tmp_path: Path, browser: Browser) -> None:
    shown = tmp_path / "shown.ivf"
    with running(tmp_path, "receive", "--web", "--sink", str(shown), "--listen", "127.0.0.1:0") as receive:
        page = browser.open(receive.find(LINK)[0])
        joined(page)
        until(page, lambda now: now["sending"][0]["frames"] > 20)
        page.click("#leave")
        receive.process.wait(SECONDS)
    assert shown.stat().st_size > 1_000


def by_websocket(link: re.Match[str]) -> str:
    return f"{link[1]}?transport=websocket#{link[2]}"


def test_websocket_carries_pictures_and_sound_both_ways(tmp_path: Path, browser: Browser) -> None:
    heard = tmp_path / "heard.wav"
    with running(tmp_path, *TALK, "--audio", "tone", "--audio-output", str(heard)) as talk:
        page = browser.open(by_websocket(talk.find(LINK)))
        joined(page)
        until(page, is_talking)
        found = until(page, lambda now: now["sound"]["packets"] > 50 and now["sound"]["concealedShare"] < 0.2)
        assert found["transport"] == "websocket"
        assert page.inner_text("#transport") == "Connected by WebSocket: the delay is higher."
        page.evaluate("window.lockstepCall.sendMessage(new Uint8Array(60_000))")
        page.wait_for_timeout(4_000)
        page.click("#leave")
        page.wait_for_selector("body[data-state=lobby]")
        assert page.inner_text("#status") == "The call is over."
        talk.process.wait(SECONDS)
        assert talk.process.returncode == 0
    with wave.open(str(heard)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    assert np.abs(samples.astype(int)).max() > 1_000


def test_websocket_is_used_when_udp_is_blocked(tmp_path: Path, browser: Browser) -> None:
    with running(tmp_path, *TALK) as talk:
        link = talk.find(LINK)
        with running(tmp_path, "emulate", link[2], "--loss", "100%", "--status", "none") as path:
            page = browser.open(f"{link[1]}#{path.find(TICKET)[0]}")
            joined(page, "#watch")
            assert until(page, lambda now: now["counters"]["shown"] > 20)["transport"] == "websocket"


def test_call_ends_with_its_tab(tmp_path: Path, browser: Browser) -> None:
    leaves: list[Callable[[Any], object]] = [lambda page: page.close(), lambda page: page.goto("about:blank")]
    for link_of in (lambda link: link[0], by_websocket):
        for leave in leaves:
            # The listener would wait longer than the test.
            with running(tmp_path, *TALK, "--idle-seconds", "300") as talk:
                page = browser.open(link_of(talk.find(LINK)))
                joined(page, "#watch")
                until(page, lambda now: now["counters"]["shown"] > 20)
                leave(page)
                talk.process.wait(SECONDS)
                assert talk.process.returncode == 0, talk.text()


def test_datagrams_wait_in_the_module_over_a_lossy_path(tmp_path: Path, browser: Browser) -> None:
    with running(tmp_path, "receive", "--web", "--listen", "127.0.0.1:0") as receive:
        link = receive.find(LINK)
        # The browser's congestion control sends slowly after losses.
        impairments = ("--trace", "constant:3mbps", "--delay-ms", "75", "--loss", "10%", "--status", "none")
        with running(tmp_path, "emulate", link[2], *impairments) as path:
            page = browser.open(f"{link[1]}#{path.find(TICKET)[0]}")
            joined(page)
            pending = []

            def has_sent(now: Any) -> bool:
                pending.append(now["counters"]["pending"])
                return bool(now["sending"][0]["frames"] > 90)

            until(page, has_sent)
            assert max(pending) <= 1


@pytest.mark.parametrize("codec", codecs())
def test_call_survives_loss_and_an_outage(tmp_path: Path, browser: Browser, codec: str) -> None:
    with running(tmp_path, *TALK, "--codec", codec) as talk:
        link = talk.find(LINK)
        impairments = (
            "--trace",
            "constant:2mbps",
            "--status",
            "none",
            "--loss",
            "5%",
            "--reverse-loss",
            "5%",
            "--loss-at",
            "4s+2s",
        )
        with running(tmp_path, "emulate", link[2], *impairments) as path:
            page = browser.open(f"{link[1]}#{path.find(TICKET)[0]}")
            joined(page)
            until(page, is_talking)
            page.wait_for_timeout(6_500)
            before = statistics(page)["counters"]["shown"]
            found = until(page, lambda now: now["counters"]["shown"] > before + 20)
            assert found["receiving"][0]["missing"] > 0
            assert found["receiving"][0]["damaged"] == 0


def test_wrong_and_used_tickets_are_explained(tmp_path: Path, browser: Browser) -> None:
    with running(tmp_path, *TALK) as talk, running(tmp_path, *TALK) as other:
        link, stranger = talk.find(LINK), other.find(LINK)
        for transport in ("", "?transport=websocket"):
            page = browser.open(f"{link[1]}{transport}#{with_secret_of(link[2], stranger[2])}")
            page.click("#watch")
            page.wait_for_selector("#status:has-text('another link')")
            page.goto("about:blank")
        page.goto(link[0])
        joined(page, "#watch")
        second = browser.open(link[0])
        second.click("#watch")
        second.wait_for_selector("#status:has-text('used already')")
        second.fill("#ticket", "LOCKSTEP-AAAA")
        second.click("#watch")
        second.wait_for_selector("#status:has-text('damaged')")
        assert page.evaluate("document.body.dataset.state") == "call"


def with_secret_of(ticket: str, other: str) -> str:
    """The ticket with the secret of another one."""

    def parsed(text: str) -> bytes:
        letters = text.removeprefix("LOCKSTEP-")
        return base64.b32decode(letters + "=" * (-len(letters) % 8))

    body = parsed(ticket)[:33] + parsed(other)[33:49] + parsed(ticket)[49:-4]
    sealed = body + hashlib.sha256(body).digest()[:4]
    return "LOCKSTEP-" + base64.b32encode(sealed).decode().rstrip("=")


def test_reload_joins_a_standing_ticket_again(tmp_path: Path, browser: Browser) -> None:
    with running(tmp_path, *TALK, "--reusable") as talk:
        page = browser.open(talk.find(LINK)[0])
        joined(page)
        until(page, is_talking)
        assert "LOCKSTEP" not in page.url
        page.reload()
        limit = time.monotonic() + SECONDS
        while page.evaluate("document.body.dataset.state") != "call":
            assert time.monotonic() < limit, page.inner_text("#status")
            if page.is_enabled("#join"):
                page.click("#join")
            page.wait_for_timeout(500)
        until(page, is_talking)


def test_hidden_page_keeps_its_call_and_its_memory(tmp_path: Path, browser: Browser) -> None:
    with running(tmp_path, *TALK) as talk:
        page = browser.open(talk.find(LINK)[0])
        joined(page)
        until(page, is_talking)
        browser.context.new_page().bring_to_front()
        page.wait_for_timeout(3_000)
        before = statistics(page)
        page.wait_for_timeout(7_000)
        after = statistics(page)
        assert after["counters"]["shown"] > before["counters"]["shown"] + 30
        assert after["counters"]["memory"] <= before["counters"]["memory"] + (1 << 20)


FAKE_DEVICES = {"media.navigator.streams.fake": True, "media.navigator.permission.disabled": True}
IN_CALL = """
const done = arguments[arguments.length - 1];
const wait = async () => {
  const found = await window.lockstepCall?.statistics();
  if (found?.counters.shown > 20 && found.sending.every((stream) => stream.frames > 20)) done(found);
  else setTimeout(wait, 200);
};
wait();
"""


@contextlib.contextmanager
def firefox_in_call(folder: Path, link: str, button: str, preferences: dict[str, bool]) -> Iterator[tuple[Any, Any]]:
    """Firefox whose page is in a call, and the statistics of the page."""
    page = firefox_end.Browser(folder / "profile", link, {**FAKE_DEVICES, **preferences})
    try:
        element = page.ask("WebDriver:FindElement", using="css selector", value=button)["value"]
        page.ask("WebDriver:ElementClick", id=next(iter(element.values())))
        # The script has as long as Marionette permits: 30 s.
        yield page, page.ask("WebDriver:ExecuteAsyncScript", script=IN_CALL, args=[])["value"]
    finally:
        page.quit()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "button", "streams", "has_webtransport"),
    [(TALK, "#join", 1, True), (("send", *TALK[1:4]), "#watch", 0, True), (TALK, "#join", 1, False)],
)
def test_firefox_receives_and_sends(
    tmp_path: Path, words: tuple[str, ...], button: str, streams: int, *, has_webtransport: bool
) -> None:
    if lacking := firefox.missing():
        pytest.skip(lacking)
    preferences = {"network.webtransport.enabled": has_webtransport}
    with (
        running(tmp_path, *words) as ours,
        firefox_in_call(tmp_path, ours.find(LINK)[0], button, preferences) as (page, found),
    ):
        assert len(found["sending"]) == streams
        assert found["transport"] == ("webtransport" if has_webtransport else "websocket")
        if not has_webtransport:
            # Firefox closes a WebSocket with its tab, and sometimes leaves a WebTransport open.
            page.ask("WebDriver:NewWindow", type="tab")
            page.ask("WebDriver:CloseWindow")
            ours.process.wait(SECONDS)


def test_module_decodes_as_the_command(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    try:
        path = lockstep_command()
    except ValueError as error:
        pytest.skip(str(error))
    shown = tmp_path / "shown.ivf"
    call = [path, "call", "--clip", "generated:320x180@30", "--seconds", "2", "--sink", str(shown)]
    made = run(call, check=False)
    assert made.returncode == 0, made.stderr
    native = run([path, "decode", "--md5", str(shown)], check=True)
    script = [node, str(CRATE / "tests/decode.mjs"), str(MODULE), str(shown)]
    module = run(script, check=True)
    sums = [line.split()[0] for line in native.stdout.splitlines()]
    assert len(sums) > 20
    assert module.stdout.split() == sums


def test_committed_module_is_that_of_its_source(tmp_path: Path) -> None:
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("rustc is not installed")
    version = run([rustc, "--version"], check=True).stdout.strip()
    if version != (CRATE / "rustc-version").read_text().strip():
        pytest.skip(f"the module was built by another compiler than {version}")
    built = tmp_path / "lockstep.wasm"
    made = run([str(CRATE / "build"), str(built)], check=False)
    if made.returncode == 2:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    assert built.read_bytes() == MODULE.read_bytes(), "run: make web"


def test_whole_page_is_small() -> None:
    loaded = [file for file in MODULE.parent.iterdir() if file.suffix in {".html", ".css", ".js", ".wasm", ".svg"}]
    assert sum(file.stat().st_size for file in loaded) < MAX_BYTES
