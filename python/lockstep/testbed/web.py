"""Lockstep in a page of Chromium, and `lockstep` at the other end of the call.

A page always joins a listener, so a call has a page at one end at most. The two directions are measured as two
programs:

- `lockstep-web`: `lockstep send --web`, and the page shows the pictures; with `codec=av1` the browser decodes them;
- `lockstep-web:page=sender`: the page sends the pictures of its camera, and `lockstep receive --web` shows them.

The page loads the client that `lockstep web export` writes (`lockstep.js`), without changes, and no sound. Where the
page receives, its worker also imports a reader (`web_reader.js`): a picture counts as displayed when it is drawn.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.command import lockstep_command
from lockstep.testbed import chromium
from lockstep.testbed.chromium import ORIGIN, Browsers, browser_errors, reading_of, sights, testbed_file
from lockstep.testbed.machine import now
from lockstep.testbed.own import Lockstep, sender_arguments
from lockstep.testbed.processes import END_SECONDS
from lockstep.testbed.programs import KINDS, Outcome, OwnSession, Program, Setting, TestbedError
from lockstep.testbed.ruler import Sight, quantile
from lockstep.testbed.session_log import sampled

if TYPE_CHECKING:
    from playwright.sync_api import Page, Worker

PAGES = ("receiver", "sender")
"""Values of the option `page`."""
CODECS = ("functional", "av1")
"""Values of the option `codec`; a page sends the first only."""
CLIENT = ("lockstep.js", "worker.js", "socket.js", "lockstep.wasm", "sound.js")
"""Files of the page that a call without the page's own controls loads."""
COUNTERS = {"codec_bps": "sent_bits", "frames_sent": "frames", "packets_sent": "sent"}
GAUGES = {"codec_target_bps": "target", "transport_bps": "target", "rtt_us": "round_trip_us"}
"""Columns of session logs, and the page's statistics for them."""


class WithPage(Lockstep):
    """A call in which one of the ends is a page."""

    end = ""
    """The end that is a page."""

    def __init__(self, codec: str) -> None:
        """Prepares a browser for a call with this codec."""
        super().__init__({**KINDS["lockstep"].options, "codec": codec})
        if lacking := chromium.missing():
            raise TestbedError(lacking)
        self._browsers = Browsers()
        self._rows: list[dict[str, Any]] = []
        self._stats: list[dict[str, Any]] = []

    @property
    def _page(self) -> "Page":
        return self._browsers.pages[self.end]

    def _source(self) -> "Page | Worker":
        """The page or worker that keeps the rows of pictures."""
        return self._page

    def _open(self, setting: Setting, extra: Mapping[str, bytes]) -> int:
        """Opens the browser with the page's client, and ``extra`` files; returns its first process."""
        side = setting.sender if self.end == "sender" else setting.receiver
        files = {"": testbed_file("page.html"), "web_page.js": testbed_file("web_page.js"), **client(), **extra}
        process = self._browsers.open(self.end, side, setting, files)
        # A public page reaches private addresses with this permission only.
        self._page.context.grant_permissions(["local-network-access"], origin=ORIGIN)
        self._page.add_script_tag(url=f"{ORIGIN}web_page.js", type="module")
        self._page.wait_for_function("typeof watch === 'function'")
        return process

    def poll(self) -> None:
        """Collects new rows and statistics; detects an end that has ended early."""
        super().poll()
        with browser_errors():
            self._take()
            found = self._page.evaluate("globalThis.call?.statistics()")
        if found is not None:
            self._stats.append({"at": now(), **flat(found)})

    def _take(self) -> None:
        self._rows += self._source().evaluate("take()")

    def _outcome(self, outcome: Outcome) -> Outcome:
        """``outcome`` with what only the page knows."""
        return replace(
            outcome,
            clock_error=max(outcome.clock_error, self._browsers.clock_error()),
            details={**outcome.details, "series": self._stats},
        )

    def close(self) -> None:
        """Ends both ends."""
        self._browsers.close()
        super().close()


class PageReceives(WithPage):
    """A call from `lockstep send --web` to a page."""

    end = "receiver"

    def _source(self) -> "Page | Worker":
        return self._page.workers[0]

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts the sender, opens the page with its ticket, and waits for the first picture."""
        if setting.relayed:
            raise TestbedError("a relay's trace leads to the listener, which is the sender here; use --link tun")
        self._setting = setting
        listening = ("--web=" + ORIGIN, "--listen", f"{setting.sender.address}:0")
        sender = self._start_sender(setting, *listening, *sender_arguments(self._options))
        ticket = self._ticket("sender")
        with browser_errors():
            worker = b"import './web_reader.js';\n" + client()["worker.js"]
            extra = {"worker.js": worker, "web_reader.js": testbed_file("web_reader.js")}
            process = self._open(setting, extra)
            setting.begin()
            self._page.evaluate("ticket => watch(ticket)", ticket)
            self._browsers.read_clock("worker", self._source())
        self._wait_for_picture()
        return {"sender": sender.pid, "receiver": process}

    def _take(self) -> None:
        super()._take()
        if errors := [row["error"] for row in self._rows if "error" in row]:
            raise TestbedError(f"the page cannot keep its pictures: {errors[0]}")
        self._times = [row["at"] for row in self._rows]

    def stop(self) -> Outcome:
        """Collects the pictures, ends both ends, and reads the barcodes."""
        assert self._setting is not None  # noqa: S101
        form = self._setting.clip
        with browser_errors():
            self._browsers.read_clock("worker", self._source())
            self._source().evaluate("finish()")
            self._take()
            with self._page.expect_download() as saved:
                self._page.evaluate("save()")
            saved.value.save_as(self._setting.work / "shown.i420")
        version = f"{self._version()} in Chromium {self._browsers.version()}"
        if any((row["width"], row["height"], row["format"]) != (form.width, form.height, "I420") for row in self._rows):
            raise TestbedError("the page shows pictures of another size or format than the clip's")
        self.close()
        self._size = form.width * form.height * 3 // 2
        offset = self._browsers.offset("worker")
        self._times = [row["at"] / 1000.0 - offset for row in self._rows]
        shown, unread = self._shown()
        return self._outcome(
            Outcome(
                previews=self._captured(),
                shown=shown,
                unread=unread,
                read_seconds=0.0,
                details={"version": version, "copy_p99_ms": quantile([row["cost"] for row in self._rows], 0.99)},
                session=self._session() if self._setting.session_log else None,
            )
        )


class PageSends(WithPage):
    """A call from a page to `lockstep receive --web`."""

    end = "sender"

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts the receiver, opens the page with its ticket, and waits for the first picture."""
        self._setting = setting
        listening = ("--web=" + ORIGIN, "--listen", f"{setting.receiver.address}:0")
        receiver, ticket = self._start_receiver(setting, *listening)
        leads = setting.through(ticket)
        with browser_errors():
            process = self._open(setting, {})
            setting.begin()
            options = {"reading": reading_of(setting.clip), "rate": setting.clip.rate}
            self._page.evaluate("([ticket, options]) => sendCamera(ticket, options)", [leads, options])
        self._wait_for_picture()
        return {"sender": process, "receiver": receiver.pid}

    def stop(self) -> Outcome:
        """Collects the camera's pictures, ends both ends, and reads the barcodes."""
        with browser_errors():
            self._take()
            self._browsers.read_clock(self.end, self._page)
            version = f"{self._version()} in Chromium {self._browsers.version()}"
        outcome = super().stop()
        return self._outcome(replace(outcome, details={**outcome.details, "version": version}))

    def _captured(self) -> list[Sight]:
        found, _ = sights(self._rows, self._browsers.offset(self.end))
        return list(found.values())

    def _session(self) -> OwnSession | None:
        """The page's statistics for each second, in the columns of session logs."""
        found = sampled(self._stats, COUNTERS, GAUGES)
        return found and replace(found, controller="lockstep", codec="functional")


def flat(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of a page's call, with those of its only stream."""
    sending, receiving = ((statistics[way] or [{}])[0] for way in ("sending", "receiving"))
    trip = statistics["roundTrip"]
    return {
        **statistics["counters"],
        **sending,
        **receiving,
        "sent_bits": 8 * statistics["counters"]["sentBytes"],
        "round_trip_us": None if trip is None else 1000.0 * trip,
    }


def client() -> dict[str, bytes]:
    """The files of the page's client, by name, as the command writes them."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "page"
        command = [lockstep_command(), "web", "export", str(written)]
        tried = subprocess.run(command, check=False, capture_output=True, text=True, timeout=END_SECONDS)  # noqa: S603
        if tried.returncode != 0:
            raise TestbedError(f"cannot write the page: {tried.stderr.strip()}")
        return {name: (written / name).read_bytes() for name in CLIENT}


def make(options: Mapping[str, str]) -> Program:
    """Makes the program with these options."""
    kind = PageSends if options["page"] == "sender" else PageReceives
    return kind(options["codec"])


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid; the message lists the valid values.

    """
    if options["page"] not in PAGES:
        raise TestbedError(f"page={options['page']} is unknown; expected one of {', '.join(PAGES)}")
    codecs = CODECS[:1] if options["page"] == "sender" else CODECS
    if options["codec"] not in codecs:
        raise TestbedError(f"codec={options['codec']} is unknown here; expected {' or '.join(codecs)}")


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    try:
        lockstep_command()
    except ValueError as error:
        return str(error)
    return chromium.missing()
