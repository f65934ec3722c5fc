"""A short run of the testbed, where Chromium and the right to make namespaces are; it says what is missing."""

import os
import subprocess
from pathlib import Path

import polars
import pytest

from lockstep.testbed import aiortc_call, chromium, link, measuring, own
from lockstep.testbed.clips import barcoded
from lockstep.testbed.programs import Clip

SECONDS = 8.0
DELAY_MS = 20.0
LINK = link.LinkSpecification("cellular:mean=2mbps,seed=1", delay_ms=DELAY_MS)
# What a module that comes in late warns of is none of ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    if lacking := own.missing():
        pytest.skip(lacking)
    return barcoded("generated", (640, 360), 30.0, SECONDS, tmp_path_factory.mktemp("clips"))


def namespaces() -> str:
    listed = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True)  # noqa: S607
    return listed.stdout


@pytest.mark.parametrize(
    ("program", "missing"),
    [("lockstep", own.missing), ("chromium", chromium.missing), ("aiortc", aiortc_call.missing)],
)
@pytest.mark.parametrize("kind", ["tun", "relay"])
def test_frames_of_a_call_over_a_link_are_found_again(
    program: str, missing: object, kind: str, clip: Clip, tmp_path: Path
) -> None:
    assert callable(missing)
    if lacking := missing() or link.missing(kind):
        pytest.skip(f"{program} over {kind}: {lacking}")
    if kind == "relay" and program == "aiortc":
        pytest.skip("two programs are enough for relays")
    found = measuring.run(measuring.Run(program, LINK, kind, clip, SECONDS), tmp_path)
    frames = polars.read_parquet(tmp_path / "frames.parquet")
    assert found["captured"] == len(frames) == SECONDS * clip.rate
    # How many are shown is up to how fast this machine is; that they are read, and no sooner than they can be, is not.
    assert found["shown"] > 0
    assert found["unread"] == 0
    assert frames["waited"].min() > DELAY_MS / 1000 - found["clock_error_ms"] / 1000 - 0.002
    assert frames.select((polars.col("ssim") > 0.5).all()).item()
    assert found["ssim_frames"] > 0
    if program == "chromium":
        assert found["identical"] > 0
        assert found["different"] == 0
    if kind == "tun":
        packets = polars.read_parquet(tmp_path / "packets.parquet")
        assert set(packets["direction"].unique()) == {"forward", "reverse"}
        assert found["forward_kbps"] > 0
        assert f"lockstep-testbed-{os.getpid()}-" not in namespaces()
