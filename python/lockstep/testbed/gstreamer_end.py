"""One end of a call with GStreamer's webrtcbin, as a process of the system's Python, which has its bindings.

Usage: `python3 -I gstreamer_end.py sender|receiver WORK CLIP OPTIONS` (OPTIONS is JSON). With the only argument
`check` it prints missing requirements. Without any it prints an empty line, the version, and an installed estimator.
`two_ends.py` describes its input, output and files. It does not import this package, because the system's Python does
not have it.
"""

import json
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

ELEMENTS = {
    "webrtcbin": "gstreamer1.0-plugins-bad",
    "nicesink": "gstreamer1.0-nice",
    "dtlssrtpenc": "gstreamer1.0-plugins-bad",
    "vp8enc": "gstreamer1.0-plugins-good",
    "rtpvp8pay": "gstreamer1.0-plugins-good",
    "rtprtxsend": "gstreamer1.0-plugins-good",
    "appsink": "gstreamer1.0-plugins-base",
}
"""Required elements, and their Debian packages."""
RTP = "application/x-rtp,media=video,encoding-name=VP8,payload=96,clock-rate=90000"
FEEDBACK = (
    ",rtcp-fb-transport-cc=(boolean)true"
    ",extmap-1=(string)http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
)
"""Arrival times of all packets, for rtpgccbwe. The payloader adds the extension that its caps have."""
ESTIMATOR = "rtpgccbwe"
GATHER_SECONDS = 5.0
SAMPLE_SECONDS = 0.5


def check() -> str:
    """The missing requirements, or an empty text."""
    try:
        import gi  # noqa: PLC0415 - the check itself

        for name in ("Gst", "GstWebRTC", "GstSdp"):
            gi.require_version(name, "1.0")
        from gi.repository import Gst  # noqa: PLC0415
    except (ImportError, ValueError):
        packages = "python3-gi gir1.2-gst-plugins-bad-1.0"
        return f"GStreamer's Python bindings are missing (Debian, Ubuntu: apt install {packages})"
    Gst.init(None)
    lacking = {package: name for name, package in ELEMENTS.items() if Gst.ElementFactory.find(name) is None}
    if lacking:
        packages = " ".join(sorted(lacking))
        return f"GStreamer has no {', '.join(lacking.values())} (Debian, Ubuntu: apt install {packages})"
    return ""


def version() -> str:
    """Version of GStreamer."""
    from gi.repository import Gst  # noqa: PLC0415 - only if installed

    return str(Gst.version_string())


def has_estimator() -> bool:
    """Whether the bandwidth estimator is installed."""
    from gi.repository import Gst  # noqa: PLC0415 - only if installed

    return Gst.ElementFactory.find(ESTIMATOR) is not None


class Clip:
    """The pictures of a y4m file, repeated at its end."""

    def __init__(self, path: Path) -> None:
        """Reads the header."""
        self._stream: BinaryIO = path.open("rb")
        header = self._stream.readline()
        fields = {field[:1]: field[1:] for field in header.decode("ascii").split()[1:]}
        self.width, self.height = int(fields["W"]), int(fields["H"])
        numerator, denominator = fields["F"].split(":")
        self.numerator, self.denominator = int(numerator), int(denominator)
        self._header = len(header)
        self._size = self.width * self.height + 2 * (-(-self.width // 2) * -(-self.height // 2))
        self.frames = (path.stat().st_size - self._header) // (self._size + len(b"FRAME\n"))

    def picture(self, number: int) -> bytes:
        """The samples of a picture."""
        each = self._size + len(b"FRAME\n")
        self._stream.seek(self._header + (number % self.frames) * each + len(b"FRAME\n"))
        return self._stream.read(self._size)


class End:
    """An end: a pipeline with one webrtcbin, and the common parts of both roles."""

    def __init__(self, role: str, work: Path, options: dict[str, Any]) -> None:
        """Makes a pipeline that contains only webrtcbin."""
        from gi.repository import Gst, GstSdp, GstWebRTC  # noqa: PLC0415 - only if installed

        self.gst, self._sdp, self._webrtc = Gst, GstSdp, GstWebRTC
        self.role, self.work, self.options = role, work, options
        self.estimates = options["control"] == "gcc"
        self.rtp = RTP + (FEEDBACK if self.estimates else "")
        self.pipeline = Gst.Pipeline()
        self.rtc = self.element("webrtcbin", bundle_policy="max-bundle", latency=int(options["latency"]))
        self._gathered = threading.Event()
        self.rtc.connect("notify::ice-gathering-state", self._on_gathering)
        bus = self.pipeline.get_bus()
        bus.set_sync_handler(self._on_message)

    def element(self, kind: str, **properties: object) -> Any:
        """Adds an element to the pipeline."""
        made = self.gst.ElementFactory.make(kind)
        for name, value in properties.items():
            self.gst.util_set_object_arg(made, name.replace("_", "-"), str(value))
        self.pipeline.add(made)
        return made

    def _on_message(self, _bus: Any, message: Any) -> Any:
        if message.type == self.gst.MessageType.ERROR:
            error, _ = message.parse_error()
            print(f"{message.src.get_name()}: {error.message}", file=sys.stderr, flush=True)
            # The driver detects that this process has ended.
            threading.Thread(target=lambda: _leave(1), daemon=True).start()
        return self.gst.BusSyncReply.DROP

    def _on_gathering(self, *_: object) -> None:
        if self.rtc.get_property("ice-gathering-state") == self._webrtc.WebRTCICEGatheringState.COMPLETE:
            self._gathered.set()

    def ask(self, signal: str, *arguments: Any) -> Any:
        """Emits a signal with a promise and waits for it; returns the promise, which owns its reply."""
        promise = self.gst.Promise.new()
        self.rtc.emit(signal, *arguments, promise)
        promise.wait()
        return promise

    def describe(self, signal: str) -> str:
        """Makes the offer or answer; returns it with its IPv4 UDP addresses."""
        promise = self.ask(signal, None)
        # Values of a reply are valid only while the reply exists.
        reply = promise.get_reply()
        self.ask("set-local-description", reply.get_value(signal.removeprefix("create-")))
        self._gathered.wait(GATHER_SECONDS)
        lines = self.rtc.get_property("local-description").sdp.as_text().splitlines()
        kept = [line for line in lines if not line.startswith("a=candidate:") or self._is_usable(line)]
        return "".join(f"{line}\r\n" for line in kept)

    @staticmethod
    def _is_usable(candidate: str) -> bool:
        words = candidate.split()
        return words[2].upper() == "UDP" and ":" not in words[4]

    def receive_description(self) -> None:
        """Applies the peer's session description."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit("no session description of the peer")
        description = json.loads(line)
        _, message = self._sdp.SDPMessage.new_from_text(description["sdp"])
        kind = {"offer": self._webrtc.WebRTCSDPType.OFFER, "answer": self._webrtc.WebRTCSDPType.ANSWER}[
            description["type"]
        ]
        self.ask("set-remote-description", self._webrtc.WebRTCSessionDescription.new(kind, message))
        # webrtcbin ignores candidates in a description, so each is added separately.
        for line in description["sdp"].splitlines():
            if line.startswith("a=candidate:"):
                self.rtc.emit("add-ice-candidate", 0, line.removeprefix("a="))

    def is_connected(self) -> bool:
        """Whether the connection is ready for media."""
        return bool(self.rtc.get_property("connection-state") == self._webrtc.WebRTCPeerConnectionState.CONNECTED)

    def sample(self, also: dict[str, Any]) -> dict[str, Any]:
        """The used values of webrtcbin's get-stats."""
        found: dict[str, Any] = {"at": time.monotonic(), **also}
        kinds = self._webrtc.WebRTCStatsType
        promise = self.ask("get-stats", None)
        reply = promise.get_reply()
        for index in range(reply.n_fields()):
            entry = reply.get_value(reply.nth_field_name(index))
            if not hasattr(entry, "get_value") or not entry.has_field("type"):
                continue
            kind = entry.get_value("type")
            if kind == kinds.OUTBOUND_RTP:
                found["sent_bits"] = 8 * entry.get_value("bytes-sent")
                found["packets_sent"] = entry.get_value("packets-sent")
            elif kind == kinds.REMOTE_INBOUND_RTP and entry.has_field("round-trip-time"):
                found["round_trip_us"] = 1e6 * entry.get_value("round-trip-time")
            elif kind == kinds.INBOUND_RTP and entry.has_field("jitter"):
                found["jitter_us"] = 1e6 * entry.get_value("jitter")
        return found


class Sender(End):
    """The clip as a camera, VP8 encoder, webrtcbin."""

    def __init__(self, work: Path, clip: Path, options: dict[str, Any]) -> None:
        """Makes the pipeline."""
        super().__init__("sender", work, options)
        self._clip = Clip(clip)
        self._encoded = self._frames = 0
        self._estimator: Any = None
        self._target = options["start" if self.estimates else "bitrate"]
        form = f"video/x-raw,format=I420,width={self._clip.width},height={self._clip.height}"
        form += f",framerate={self._clip.numerator}/{self._clip.denominator}"
        # A camera has few waiting pictures; the oldest are dropped.
        self._source = self.element(
            "appsrc",
            is_live="true",
            format="time",
            do_timestamp="true",
            max_buffers=2,
            max_bytes=0,
            leaky_type="downstream",
        )
        self._source.set_property("caps", self.gst.Caps.from_string(form))
        # The settings of libvpx in libwebrtc.
        self._encoder = self.element(
            "vp8enc",
            target_bitrate=self._target,
            deadline=1,
            cpu_used=-6,
            end_usage="cbr",
            keyframe_max_dist=3000,
            min_quantizer=2,
            max_quantizer=56,
            undershoot=100,
            overshoot=15,
            buffer_size=1000,
            buffer_initial_size=500,
            buffer_optimal_size=600,
            static_threshold=1,
            threads=1,
        )
        self._encoder.get_static_pad("src").add_probe(self.gst.PadProbeType.BUFFER, self._on_encoded)
        payloader = self.element("rtpvp8pay", picture_id_mode="15-bit")
        filtered = self.element("capsfilter", caps=self.rtp)
        for before, after in pairwise((self._source, self._encoder, payloader, filtered)):
            before.link(after)
        if self.estimates:
            self._estimator = self._make_estimator()
            self.rtc.connect("request-aux-sender", lambda *_: self._estimator)
        filtered.link(self.rtc)
        transceiver = self.rtc.emit("get-transceiver", 0)
        transceiver.set_property("direction", self._webrtc.WebRTCRTPTransceiverDirection.SENDONLY)
        # No picture has arrived yet to determine the codec.
        transceiver.set_property("codec-preferences", self.gst.Caps.from_string(self.rtp))
        transceiver.set_property("do-nack", True)

    def _make_estimator(self) -> Any:
        if self.options["plugin"]:
            self.gst.Plugin.load_file(self.options["plugin"])
        made = self.gst.ElementFactory.make(ESTIMATOR)
        made.set_property("max-bitrate", self.options["cap"])
        made.set_property("estimated-bitrate", self._target)
        made.connect("notify::estimated-bitrate", self._on_estimate)
        return made

    def _on_estimate(self, *_: object) -> None:
        # The encoder's target is the whole estimate, as in webrtcsink.
        self._target = self._estimator.get_property("estimated-bitrate")
        self._encoder.set_property("target-bitrate", self._target)

    def _on_encoded(self, _pad: Any, info: Any) -> Any:
        self._encoded += 8 * info.get_buffer().get_size()
        self._frames += 1
        return self.gst.PadProbeReturn.OK

    def join(self) -> None:
        """Sends the offer, applies the answer, and plays the clip when the connection is ready."""
        self.pipeline.set_state(self.gst.State.PLAYING)
        _send_description("offer", self.describe("create-offer"))
        self.receive_description()
        threading.Thread(target=self._play, daemon=True).start()

    def _play(self) -> None:
        while not self.is_connected():
            time.sleep(0.005)
        rate = self._clip.numerator / self._clip.denominator
        began, number = time.monotonic(), 0
        with (self.work / "sender.times").open("w") as times:
            while True:
                number = max(number, int((time.monotonic() - began) * rate))
                picture = self._clip.picture(number)
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                times.write(f"{number % self._clip.frames} {time.monotonic()}\n")
                times.flush()
                self._source.emit("push-buffer", self.gst.Buffer.new_wrapped(picture))
                number += 1

    def counts(self) -> dict[str, Any]:
        """Counters of the encoder."""
        found = {"media_bits": self._encoded, "frames_sent": self._frames, "target_bps": self._target}
        return found | ({"estimate_bps": self._target} if self.estimates else {})


class Receiver(End):
    """webrtcbin, VP8 decoder, and a sink that shows pictures at their time."""

    def __init__(self, work: Path, options: dict[str, Any]) -> None:
        """Makes the pipeline."""
        super().__init__("receiver", work, options)
        self._kept = (work / "shown.i420").open("wb")
        self._times = (work / "receiver.times").open("w")
        direction = self._webrtc.WebRTCRTPTransceiverDirection.RECVONLY
        transceiver = self.rtc.emit("add-transceiver", direction, self.gst.Caps.from_string(self.rtp))
        transceiver.set_property("do-nack", True)
        self.rtc.connect("pad-added", self._on_pad)

    def _on_pad(self, _rtc: Any, pad: Any) -> None:
        if pad.get_direction() != self.gst.PadDirection.SRC:
            return
        chain = [
            self.element("rtpvp8depay", request_keyframe="true", wait_for_keyframe="true"),
            self.element("vp8dec"),
            self.element("appsink", caps="video/x-raw,format=I420", emit_signals="true", sync="true", qos="false"),
        ]
        for before, after in pairwise(chain):
            before.link(after)
        chain[-1].connect("new-sample", self._show)
        for made in chain:
            made.sync_state_with_parent()
        pad.link(chain[0].get_static_pad("sink"))

    def _show(self, sink: Any) -> Any:
        at = time.monotonic()
        sample = sink.emit("pull-sample")
        form = sample.get_caps().get_structure(0)
        width, height = form.get_value("width"), form.get_value("height")
        buffer = sample.get_buffer()
        self._kept.write(tight(buffer.extract_dup(0, buffer.get_size()), width, height))
        self._kept.flush()
        self._times.write(f"{width} {height} {at}\n")
        self._times.flush()
        return self.gst.FlowReturn.OK

    def join(self) -> None:
        """Applies the offer and sends the answer."""
        self.pipeline.set_state(self.gst.State.PLAYING)
        self.receive_description()
        _send_description("answer", self.describe("create-answer"))

    def counts(self) -> dict[str, Any]:
        """No own counters."""
        return {}


def tight(data: bytes, width: int, height: int) -> bytes:
    """The samples of a picture without the padding of its rows, to multiples of four in GStreamer (video-info)."""

    def up(value: int, to: int) -> int:
        return -(-value // to) * to

    across, down = -(-width // 2), -(-height // 2)
    planes, start = [], 0
    for columns, rows, stride, lines in (
        (width, height, up(width, 4), up(height, 2)),
        (across, down, up(across, 4), down),
        (across, down, up(across, 4), down),
    ):
        if stride == columns:
            planes.append(data[start : start + rows * columns])
        else:
            planes += [data[start + row * stride : start + row * stride + columns] for row in range(rows)]
        start += stride * lines
    return b"".join(planes)


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _send_description(kind: str, sdp: str) -> None:
    print(json.dumps({"type": kind, "sdp": sdp}), flush=True)


def _leave(status: int) -> None:
    import os  # noqa: PLC0415 - GStreamer's threads may not end

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(words: list[str]) -> None:
    """Runs an end until standard input ends."""
    if words == ["check"]:
        print(lacking := check())
        if not lacking:
            print(version())
            print(ESTIMATOR if has_estimator() else "")
        return
    if lacking := check():
        raise SystemExit(lacking)
    role, work, clip, options = words[0], Path(words[1]), Path(words[2]), json.loads(words[3])
    made = Sender(work, clip, options) if role == "sender" else Receiver(work, options)
    made.join()
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    with (work / f"{role}.series").open("w") as series:
        while not ended.wait(SAMPLE_SECONDS):
            series.write(json.dumps(made.sample(made.counts())) + "\n")
            series.flush()
    made.pipeline.set_state(made.gst.State.NULL)
    _leave(0)


if __name__ == "__main__":
    main(sys.argv[1:])
