"""Chromium's own WebRTC: two browser processes with one page each, which call each other like any page.

The clip is the sender's camera (`--use-file-for-fake-video-capture`). At the receiver, `MediaStreamTrackProcessor`
reads the pictures of the track. `RTCRtpScriptTransform` keeps the encoded frames on their way to the decoder. The
driver decodes them after the call. Digests of whole pictures, one per second, verify that the result is what was
displayed.
"""

import base64
import contextlib
import hashlib
import mimetypes
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.distribution import install_command
from lockstep.testbed.barcodes import read_cut, regions
from lockstep.testbed.decoding import EncodedFrame, confirmed, decoded
from lockstep.testbed.machine import now
from lockstep.testbed.processes import end_group, pause
from lockstep.testbed.programs import Clip, Outcome, OwnSession, Samples, Setting, Shown, Side, TestbedError
from lockstep.testbed.ruler import Sight, quantile
from lockstep.testbed.session_log import sampled

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Playwright, Route, Worker

ORIGIN = "https://lockstep.test/"
"""A secure origin; the driver answers its requests, so no network is involved."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
KNOWN = {
    "codec": ("vp8", "vp9", "av1", "h264"),
    "degradation": (
        "default",
        "balanced",
        "maintain-framerate",
        "maintain-resolution",
        "maintain-framerate-and-resolution",
    ),
    "hint": ("default", "motion", "detail", "text"),
}
"""Values of these options: codecs of Chromium, degradation preferences and content hints (W3C mst-content-hint)."""
COUNTERS = {
    "codec_bps": "media_bits",
    "sent_bps": "sent_bits",
    "packets_sent": "packets_sent",
    "frames_sent": "frames_sent",
    "received_bps": "received_bits",
    "packets_received": "packets_received",
    "packets_lost": "packets_lost",
}
"""Columns of session logs, and the counters of getStats for them."""
GAUGES = {
    "codec_target_bps": "target_bps",
    "transport_bps": "available_bps",
    "estimate_bps": "available_bps",
    "rtt_us": "round_trip_us",
    "jitter_us": "jitter_us",
}
"""Columns of session logs, and the gauges of getStats for them; the transport's target is its estimate."""
DIGEST_EVERY_MS = 1000.0
"""Interval at which the receiver takes the digest of a whole picture."""
CLOCK_READINGS = 15
START_SECONDS = 20.0
"""Time limit for the first displayed picture."""
TAKEN_AT_ONCE = 200
"""Number of encoded frames that the driver takes from the page at once."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Use real addresses as candidates; the addresses of the emulated link are not private.
    "--disable-features=WebRtcHideLocalIpsWithMdns,Translate,MediaRouter,OptimizationHints",
)


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    try:
        import playwright.sync_api  # noqa: F401, PLC0415 - from an extra
    except ModuleNotFoundError:
        return f"cannot import playwright; install it with: {install_command('testbed')}"
    if not any(shutil.which(name) for name in BROWSERS):
        return "chromium is not installed (Debian, Ubuntu: apt install chromium)"
    return None


class Browsers:
    """Chromiums of a run: a process with one page for each end that is a browser."""

    def __init__(self) -> None:
        """Starts nothing."""
        self.pages: dict[str, Page] = {}
        """The page of each end."""
        self._playwright: Playwright | None = None
        self._contexts: list[BrowserContext] = []
        self._started: list[int] = []
        self._clocks: dict[str, list[tuple[float, float]]] = {}

    def open(self, name: str, side: Side, setting: Setting, files: Mapping[str, bytes]) -> int:
        """Opens a browser at ``side`` with a page of these ``files`` (of `ORIGIN`); returns its first process."""
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - from an extra

        if self._playwright is None:
            self._playwright = sync_playwright().start()
        work = setting.work
        browser = next(path for path in map(shutil.which, BROWSERS) if path)
        process, wrapper = work / f"{name}.pid", work / f"{name}.sh"
        enter = "".join(f"{word} " for word in side.enter)
        wrapper.write_text(f'#!/bin/sh\necho $$ > {process}\nexec {enter}{browser} "$@"\n')
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        arguments = list(ARGUMENTS)
        if name == "sender":
            camera = f"--use-file-for-fake-video-capture={setting.clip.path}"
            arguments += ["--use-fake-device-for-media-stream", camera]
        context = self._playwright.chromium.launch_persistent_context(
            str(work / name),
            executable_path=str(wrapper),
            headless=True,
            args=arguments,
            # The driver handles these signals and closes the browsers.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        self._contexts.append(context)
        self._started.append(int(process.read_text()))

        def answer(route: "Route") -> None:
            file = route.request.url.removeprefix(ORIGIN)
            if file in files:
                route.fulfill(body=files[file], content_type=mimetypes.guess_type(file)[0] or "text/html")
            else:
                route.fulfill(status=404)

        context.route(f"{ORIGIN}**", answer)
        page = context.pages[0]
        page.goto(ORIGIN)
        self.pages[name] = page
        self.read_clock(name, page)
        return self._started[-1]

    def read_clock(self, name: str, reader: "Page | Worker") -> None:
        """Measures the offset of the clock of a page or worker; the reading with the shortest duration is the best."""
        for _ in range(CLOCK_READINGS):
            before = now()
            there = reader.evaluate("now()") / 1000.0
            after = now()
            self._clocks.setdefault(name, []).append((after - before, there - (before + after) / 2))

    def offset(self, name: str) -> float:
        """The lead of the clock of a page or worker, s."""
        return min(self._clocks[name])[1]

    def clock_error(self) -> float:
        """The largest error of these offsets, s."""
        return max(min(readings)[0] / 2 for readings in self._clocks.values())

    def version(self) -> str:
        """The version of the browser."""
        browser = self._contexts[0].browser
        return browser.version if browser else str(next(iter(self.pages.values())).evaluate("navigator.userAgent"))

    def close(self) -> None:
        """Closes the browsers; may be called repeatedly."""
        for context in self._contexts:
            # A crashed browser cannot be closed, but the other one can.
            with contextlib.suppress(TestbedError), browser_errors():
                context.close()
        self._contexts.clear()
        if self._playwright is not None:
            self._playwright.stop()
            self._playwright = None
        for leader in self._started:
            # A crashed browser may leave processes.
            end_group(leader)
        self._started.clear()


class Chromium:
    """A call between two Chromiums."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Sets the options `codec`, `cap` (`default` or a bit rate), `layers`, `degradation` and `hint`."""
        if lacking := missing():
            raise TestbedError(lacking)
        self._options = dict(options)
        self._cap = None if options["cap"] == "default" else bits_per_second(options["cap"])
        self._browsers = Browsers()
        self._rows: dict[str, list[dict[str, Any]]] = {"sender": [], "receiver": []}
        self._stats: list[dict[str, Any]] = []
        self._encoded: list[EncodedFrame] = []
        self._digests: dict[int, str] = {}
        self._wanted: dict[int, int] = {}
        self._setting: Setting | None = None
        self.identical = 0
        self.different = 0

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Opens both browsers, joins them, and waits for the first picture."""
        self._setting = setting
        clip = setting.clip
        processes = {}
        with browser_errors():
            files = {"": testbed_file("page.html")}
            for name, side in (("sender", setting.sender), ("receiver", setting.receiver)):
                processes[name] = self._browsers.open(name, side, setting, files)
            reading = reading_of(clip)
            layers = None if self._options["layers"] == "none" else self._options["layers"]
            degradation = None if self._options["degradation"] == "default" else self._options["degradation"]
            offered = self._browsers.pages["sender"].evaluate(
                "options => offer(options)",
                {
                    "reading": reading,
                    "rate": clip.rate,
                    "codec": self._options["codec"],
                    "maxBitrate": self._cap,
                    "scalabilityMode": layers,
                    "degradation": degradation,
                    "hint": "" if self._options["hint"] == "default" else self._options["hint"],
                },
            )
            # The relay must be the only path: the sender's own candidates would bypass it.
            relayed = setting.relayed
            answered = self._browsers.pages["receiver"].evaluate(
                "([sdp, options]) => answer(sdp, options)",
                [
                    without_candidates(offered) if relayed else offered,
                    {"reading": reading, "tap": True, "digestEvery": DIGEST_EVERY_MS},
                ],
            )
            if relayed:
                answered = with_candidate(answered, setting.through)
            setting.begin()
            self._browsers.pages["sender"].evaluate("sdp => accept(sdp)", answered)
        deadline = now() + START_SECONDS
        while not self._rows["receiver"]:
            if now() > deadline:
                raise TestbedError(f"chromium showed no picture within {START_SECONDS:.0f} s of joining")
            with browser_errors():
                self._browsers.pages["receiver"].wait_for_timeout(100)
                self._take()
            pause(0.0)
        self.poll()
        return processes

    def poll(self) -> None:
        """Collects new readings and statistics of both ends; detects a browser that has ended."""
        with browser_errors():
            self._take()
            sender, receiver = (self._browsers.pages[name].evaluate("stats()") for name in ("sender", "receiver"))
        self._stats.append({"at": now(), **outbound(sender), **inbound(receiver)})

    def _take(self) -> None:
        for name, page in self._browsers.pages.items():
            self._rows[name] += page.evaluate("take()")

    def stop(self) -> Outcome:
        """Collects the remaining readings, closes the browsers, and converts times to the machine's clock."""
        with browser_errors():
            self._take()
            last = {name: page.evaluate("stats()") for name, page in self._browsers.pages.items()}
            version = self._browsers.version()
            for name, page in self._browsers.pages.items():
                self._browsers.read_clock(name, page)
            self._take_encoded()
        self.close()
        previews, unread_previews = sights(self._rows["sender"], self._browsers.offset("sender"))
        seen, unread = sights(self._rows["receiver"], self._browsers.offset("receiver"))
        shown = [Shown(sight, index) for index, sight in seen.items()]
        self._wanted = {self._rows["receiver"][index]["rtp"]: index for index in seen}
        self._digests = {
            row["rtp"]: row["digest"]
            for row in self._rows["receiver"]
            if "digest" in row and row["width"] == self._clip_size()[0] and row["format"] == "I420"
        }
        limited = sorted({str(entry["limited"]) for entry in self._stats if entry["limited"] not in (None, "none")})
        costs = [row["cost"] / 1000.0 for row in self._rows["receiver"] if "cost" in row and "digest" not in row]
        return Outcome(
            previews=list(previews.values()),
            shown=shown,
            unread=unread,
            clock_error=self._browsers.clock_error(),
            read_seconds=quantile(costs, 0.99),
            limited=limited,
            details={
                "version": version,
                "unread_previews": unread_previews,
                "series": self._stats,
                "statistics": last,
            },
            session=self._session() if self._setting is not None and self._setting.session_log else None,
        )

    def _session(self) -> OwnSession | None:
        """The statistics of getStats for each second, in the columns of session logs."""
        found = sampled(self._stats, COUNTERS, GAUGES)
        return found and replace(found, controller="gcc", codec=self._options["codec"])

    def _clip_size(self) -> tuple[int, int]:
        assert self._setting is not None  # noqa: S101
        return self._setting.clip.width, self._setting.clip.height

    def _take_encoded(self) -> None:
        start = 0
        while part := self._browsers.pages["receiver"].evaluate(f"tapped({start}, {start + TAKEN_AT_ONCE})"):
            start += len(part)
            self._encoded += [
                EncodedFrame(frame["rtp"], bool(frame["key"]), base64.b64decode(frame["data"])) for frame in part
            ]

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """Decodes the received frames as the browser's decoder did; skips those that digests do not confirm."""
        assert self._setting is not None  # noqa: S101

        def judge(frame: EncodedFrame, picture: bytes) -> bool | None:
            if (digest := self._digests.get(frame.rtp)) is None:
                return None
            same = hashlib.sha256(picture).hexdigest() == digest
            self.identical += same
            self.different += not same
            return same

        pictures = decoded(self._encoded, self._options["codec"], self._setting.clip, self._setting.work)
        return confirmed(pictures, self._wanted, judge)

    def close(self) -> None:
        """Closes the browsers."""
        self._browsers.close()


def make(options: Mapping[str, str]) -> Chromium:
    """The program with these options."""
    return Chromium(options)


def check(options: Mapping[str, str]) -> None:
    """Checks the options of Chromium before it starts.

    Raises:
        TestbedError: If one is invalid; the message lists the valid values.

    """
    for option, known in KNOWN.items():
        if options[option] not in known:
            raise TestbedError(f"{option}={options[option]} is unknown to Chromium; expected one of {', '.join(known)}")
    if options["cap"] != "default":
        bits_per_second(options["cap"])
    if not re.fullmatch(r"none|[LS][1-3]T[1-3]h?(_KEY)?", options["layers"]):
        raise TestbedError(
            f"layers={options['layers']} is not a scalability mode; expected one such as L1T3 (W3C webrtc-svc)"
        )


def testbed_file(name: str) -> bytes:
    """A file of this package."""
    return (resources.files("lockstep.testbed") / name).read_bytes()


def reading_of(clip: Clip) -> dict[str, Any]:
    """What a page needs to read the barcodes of pictures of this clip."""
    return {
        "width": clip.width,
        "height": clip.height,
        "regions": [list(region) for region in regions(clip.width, clip.height)],
    }


def sights(rows: Sequence[Mapping[str, Any]], offset: float) -> tuple[dict[int, Sight], int]:
    """The pictures with readable numbers, by the index of their rows, and the number of unreadable ones."""
    found: dict[int, Sight] = {}
    unread = 0
    for index, row in enumerate(rows):
        cuts = [
            (
                (cut["rect"]["x"], cut["rect"]["y"], cut["rect"]["width"], cut["rect"]["height"]),
                np.frombuffer(base64.b64decode(cut["bytes"]), np.uint8).reshape(-1, cut["stride"]),
            )
            for cut in row.get("regions", [])
        ]
        number = read_cut(row["width"], row["height"], cuts) if len(cuts) == 2 else None
        if number is None:
            unread += 1
        else:
            found[index] = Sight(number, row["at"] / 1000.0 - offset)
    return found, unread


@contextlib.contextmanager
def browser_errors() -> Iterator[None]:
    """Converts errors of the browser, including a crash, to errors of one line."""
    from playwright.sync_api import Error  # noqa: PLC0415 - from an extra

    try:
        yield
    except Error as error:
        raise TestbedError(f"chromium: {error.message.splitlines()[0]}") from error


def bits_per_second(text: str) -> int:
    """Reads a bit rate such as `12mbps` or `500kbps`.

    Raises:
        TestbedError: If it is not a bit rate.

    """
    for unit, factor in (("mbps", 1_000_000), ("kbps", 1_000)):
        if text.endswith(unit):
            try:
                return round(float(text.removesuffix(unit)) * factor)
            except ValueError:
                break
    raise TestbedError(f"{text!r} is not a bit rate; expected one such as 12mbps or 500kbps")


def without_candidates(sdp: str) -> str:
    """A session description without addresses."""
    return "".join(line for line in sdp.splitlines(keepends=True) if not line.startswith("a=candidate:"))


def with_candidate(sdp: str, through: Callable[[str], str]) -> str:
    """A session description whose only candidates are ``through`` of its first IPv4 UDP candidate.

    Raises:
        TestbedError: If it has no such candidate.

    """
    fields = (line.split() for line in sdp.splitlines() if line.startswith("a=candidate:"))
    usable = [words for words in fields if words[2].lower() == "udp" and re.fullmatch(r"[0-9.]+", words[4])]
    if not usable:
        raise TestbedError("the browser has no IPv4 address; a network device other than loopback is required")
    chosen = usable[0]
    host, _, port = through(f"{chosen[4]}:{chosen[5]}").rpartition(":")
    chosen[4], chosen[5] = host, port
    lines: list[str] = []
    for line in sdp.splitlines(keepends=True):
        if not line.startswith("a=candidate:"):
            lines.append(line)
        elif not any(kept.startswith("a=candidate:") for kept in lines):
            lines.append(" ".join(chosen) + "\r\n")
    return "".join(lines)


def _entry(statistics: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next((entry for entry in statistics if entry["type"] == kind), {})


def outbound(statistics: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of getStats at the sender."""
    sent = _entry(statistics, "outbound-rtp")
    chosen = _entry(statistics, "transport").get("selectedCandidatePairId")
    pair: dict[str, Any] = next((entry for entry in statistics if entry["id"] == chosen), {})
    return {
        "target_bps": sent.get("targetBitrate"),
        "available_bps": pair.get("availableOutgoingBitrate"),
        "round_trip_s": pair.get("currentRoundTripTime"),
        "width": sent.get("frameWidth"),
        "height": sent.get("frameHeight"),
        "encoded_per_second": sent.get("framesPerSecond"),
        "limited": sent.get("qualityLimitationReason"),
        "media_bits": 8 * (sent.get("bytesSent", 0) - sent.get("retransmittedBytesSent", 0)),
        "sent_bits": 8 * (sent.get("bytesSent", 0) + sent.get("headerBytesSent", 0)),
        "packets_sent": sent.get("packetsSent"),
        "frames_sent": sent.get("framesSent"),
        "round_trip_us": None if (trip := pair.get("currentRoundTripTime")) is None else 1e6 * trip,
        "encoder": sent.get("encoderImplementation"),
    }


def inbound(statistics: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of getStats at the receiver."""
    received = _entry(statistics, "inbound-rtp")
    return {
        "decoded": received.get("framesDecoded"),
        "dropped": received.get("framesDropped"),
        "freezes": received.get("freezeCount"),
        "decoder": received.get("decoderImplementation"),
        "received_bits": 8 * (received.get("bytesReceived", 0) + received.get("headerBytesReceived", 0)),
        "packets_received": received.get("packetsReceived"),
        "packets_lost": received.get("packetsLost"),
        "jitter_us": 1e6 * received.get("jitter", 0.0) if received else None,
    }
