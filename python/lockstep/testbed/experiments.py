"""The experiments as data: programs, links, and the paper's figures."""

import os
from dataclasses import dataclass
from pathlib import Path

from lockstep.testbed.link import LinkSpecification

OWN = "lockstep"
SALSIFY = "lockstep:controller=salsify"
CONVENTIONAL = "lockstep:controller=gcc,codec=conventional"
CHROMIUM = "chromium"

LABELS = {
    OWN: "Lockstep",
    SALSIFY: "Lockstep, Salsify's controller",
    CONVENTIONAL: "Lockstep, conventional codec and GCC",
    "lockstep-web": "Lockstep to a page",
    "lockstep-web:page=sender": "Lockstep from a page",
    CHROMIUM: "Chromium, VP8",
    "chromium:codec=vp9": "Chromium, VP9",
    "chromium:codec=vp9,layers=L1T3": "Chromium, VP9 L1T3",
    "chromium:codec=av1": "Chromium, AV1",
    "chromium:codec=h264": "Chromium, H.264",
    "chromium:cap=12mbps": "Chromium, VP8, cap raised",
    "chromium:codec=vp9,cap=12mbps": "Chromium, VP9, cap raised",
    "chromium:codec=av1,cap=12mbps": "Chromium, AV1, cap raised",
    "lockstep:controller=salsify,grace=none": "Salsify's, no grace period",
    "lockstep:controller=salsify,codec=conventional": "Salsify's, conventional codec",
    "aiortc": "aiortc, VP8",
    "firefox": "Firefox, VP8",
    "gstreamer": "GStreamer, VP8, fixed rate",
    "gstreamer:latency=40": "GStreamer, VP8, fixed rate, 40 ms buffer",
    "gstreamer:control=gcc": "GStreamer, VP8, GCC",
    "gstreamer:control=gcc,latency=40": "GStreamer, VP8, GCC, 40 ms buffer",
    "str0m": "str0m, Lockstep's VP8",
    "pion": "pion, libvpx's VP8",
}
"""Display names of programs; others are shown by their own names."""

STANDARD = (OWN, SALSIFY, CONVENTIONAL, CHROMIUM)
ALL = (
    *STANDARD,
    "lockstep-web",
    "lockstep-web:page=sender",
    "chromium:cap=12mbps",
    "chromium:codec=vp9",
    "chromium:codec=vp9,layers=L1T3",
    "chromium:codec=vp9,cap=12mbps",
    "chromium:codec=av1",
    "chromium:codec=av1,cap=12mbps",
    "chromium:codec=h264",
    "firefox",
    "aiortc",
    "gstreamer",
    "gstreamer:latency=40",
    "gstreamer:control=gcc",
    "gstreamer:control=gcc,latency=40",
    "str0m",
    "pion",
)
"""Programs of `--program all`."""

NOT_RECORDED = "the recording is not available: the link is generated"


@dataclass(frozen=True, slots=True)
class Printed:
    """A figure of the paper: median and 95th percentile of delay (ms), SSIM (dB)."""

    system: str
    p50: float
    p95: float
    ssim_db: float
    whose: str = "shown frames only"


@dataclass(frozen=True, slots=True)
class Case:
    """A link of an experiment: the first available recording of `recordings`, or else `generated`."""

    name: str
    generated: str
    recordings: tuple[str, ...] = ()
    delay_ms: float = 20.0
    queue_packets: int = 256
    loss: str = "0"
    access: str = "other"
    """Kind of access network, for session logs."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of the paper, or an additional one."""

    number: int
    title: str
    cases: tuple[Case, ...]
    programs: tuple[str, ...] = STANDARD
    printed: tuple[Printed, ...] = ()
    note: str = ""


def _loss(share: str) -> Case:
    return Case(f"{share} lost", "constant:2mbps", loss=share)


def _queue(packets: int) -> Case:
    recordings = ("Verizon-LTE-short",)
    return Case(f"{packets} packets", "cellular:mean=5mbps,seed=1", recordings, queue_packets=packets, access="4g")


def _ramp() -> str:
    """24 Mb/s for 2 s; down to zero and up again by 1.2 Mb/s per second; 24 Mb/s for 18 s."""
    falling = [f"{23.4 - 1.2 * second:.1f}mbps@1s" for second in range(20)]
    return "steps:" + "/".join(["24mbps@2s", *falling, *reversed(falling), "24mbps@18s"]) + ",outage=22s+1.66s"


VERIZON = Case("Verizon LTE", "fitted:lte,seed=1", ("Verizon-LTE-driving", "Verizon-LTE-short"), access="4g")
ATT = Case("AT&T LTE", "fitted:lte,seed=2", ("ATT-LTE-driving", "ATT-LTE-driving-2016"), access="4g")
UMTS = Case("T-Mobile UMTS", "fitted:umts,seed=1", ("TMobile-UMTS-driving",), access="3g")
# `on` is the time with loss. This seed is close to the mean: 5 failures in 30 s, 21 in 120 s.
INTERMITTENT = Case("intermittent", "onoff:12mbps,on=0.2s,off=5s,loss=100%,seed=14")

EXPERIMENTS: dict[str, Experiment] = {
    "verizon": Experiment(
        1,
        "Verizon LTE",
        (VERIZON,),
        printed=(
            Printed("Salsify (2 cores)", 206, 323, 16.5),
            Printed("Salsify (1 core)", 267, 384, 16.5),
            Printed("WebRTC", 256, 1040, 15.2),
        ),
        note="The paper uses the recording Verizon-LTE-driving; Verizon-LTE-short is mahimahi's of the same network.",
    ),
    "att": Experiment(
        2,
        "AT&T LTE",
        (ATT,),
        printed=(
            Printed("Salsify", 213, 330, 16.2),
            Printed("WebRTC", 427, 1978, 15.0),
            Printed("Salsify", 246, 430, 16.2, "all captured frames"),
            Printed("WebRTC", 443, 4795, 15.0, "all captured frames"),
        ),
    ),
    "tmobile": Experiment(
        3,
        "T-Mobile UMTS",
        (UMTS,),
        printed=(
            Printed("Salsify", 210, 443, 14.8),
            Printed("WebRTC", 272, 1123, 13.1),
            Printed("Salsify", 243, 4197, 14.8, "all captured frames"),
            Printed("WebRTC", 372, 9925, 13.1, "all captured frames"),
        ),
    ),
    "wifi": Experiment(
        4,
        "Wi-Fi",
        (Case("Wi-Fi", "poisson:570kbps,seed=1", ("0.57mbps-poisson",), access="wifi"),),
        note="The paper emulates a Wi-Fi path: 570 kb/s on average, delivery opportunities follow a Poisson process.",
    ),
    "intermittent": Experiment(
        5,
        "Intermittent link",
        (INTERMITTENT,),
        printed=tuple(
            Printed(system, float("nan"), p95, ssim_db, "all captured frames, draft of the paper")
            for system, p95, ssim_db in (
                ("Salsify (2 cores)", 243, 17.2),
                ("Salsify (1 core)", 325, 17.3),
                ("FaceTime", 416, 14.7),
                ("Hangouts", 1771, 9.3),
                ("Skype", 230, 15.7),
                ("WebRTC", 87, 15.4),
                ("WebRTC (VP9-SVC)", 277, 15.3),
            )
        ),
        note="12 Mb/s; the link fails after 5 s and is restored after 0.2 s on average, both exponential. A failed "
        "link loses every packet.",
    ),
    "ramp": Experiment(
        6,
        "Ramp down and up",
        (Case("ramp", _ramp()),),
        note="Salsify's published trace `ramp` from second 68 on: 24 Mb/s, down to zero in 20 s, no packet for "
        "1.66 s, back in 20 s. A run of 30 s includes the first 8 s of the recovery, where the paper counts frames.",
    ),
    "outage": Experiment(
        7,
        "One-second outage",
        (Case("outage", "constant:500kbps,duration=60s,outage=10s+1s"),),
        note="500 kb/s; at 10 s the link delivers nothing for one second.",
    ),
    "loss": Experiment(8, "Random loss", tuple(map(_loss, ("0%", "1%", "2%", "5%", "10%"))), note="2 Mb/s."),
    "queue": Experiment(9, "Queues", tuple(map(_queue, (64, 256, 1024)))),
    "ablation": Experiment(
        10,
        "Component ablation",
        (VERIZON,),
        programs=(
            OWN,
            SALSIFY,
            "lockstep:controller=salsify,grace=none",
            "lockstep:controller=salsify,codec=conventional",
            CONVENTIONAL,
        ),
        printed=(
            Printed("Salsify", 206, 323, 16.5),
            Printed("no grace period", float("nan"), float("nan"), 10.3),
            Printed("conventional codec", 195, 362, 13.4),
            Printed("conventional codec and transport", float("nan"), 2625, float("nan")),
        ),
    ),
    "browser": Experiment(
        11,
        "Lockstep and WebRTC in one browser",
        (VERIZON, ATT, UMTS, *map(_loss, ("1%", "5%", "10%")), INTERMITTENT),
        programs=("lockstep-web", "lockstep-web:page=sender", CHROMIUM, "chromium:codec=vp9", "chromium:codec=av1"),
        note="A page and the command are the ends of a Lockstep call; WebRTC has pages at both ends.",
    ),
}
"""The experiments by name."""

SELF_TEST = Case("no limit", "constant:100mbps", delay_ms=0.0, queue_packets=1024)
"""Almost no link: measures the delay of the program itself, and the error of the ruler."""


def label(program: str) -> str:
    """The display name of a program."""
    return LABELS.get(program, program)


def traces() -> Path | None:
    """The folder of recordings: `traces/mahimahi` in LOCKSTEP_SHARED, or in `shared` next to the checkout."""
    named = os.environ.get("LOCKSTEP_SHARED")
    folder = Path(named) if named else Path(__file__).parents[4] / "shared"
    found = folder / "traces" / "mahimahi"
    return found if found.is_dir() else None


def resolve(case: Case) -> tuple[LinkSpecification, str]:
    """The link of a case, and the source of its capacity."""
    folder = traces()
    for name in case.recordings if folder else ():
        assert folder is not None  # noqa: S101
        up, down = folder / f"{name}.up", folder / f"{name}.down"
        if up.exists():
            link = LinkSpecification(
                str(up), str(down) if down.exists() else None, case.delay_ms, case.queue_packets, case.loss
            )
            return link, f"recording {name}"
    link = LinkSpecification(case.generated, None, case.delay_ms, case.queue_packets, case.loss)
    return link, f"generated, {case.generated}" + (f" ({NOT_RECORDED})" if case.recordings else "")
