import inspect
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import lockstep
from lockstep import _lockstep
from lockstep.call_log import FRAME_COLUMNS

SMALL: dict[str, Any] = {"clip": "generated:160x96@30", "seconds": 2.0, "seed": 5}
"""A call with the real codec that does not take long."""

MODELLED: dict[str, Any] = {"codec": "modelled", "clip": "generated:640x360@30", "seconds": 10.0, "seed": 5}


def command() -> Path | None:
    """The lockstep command, where it is built."""
    root = Path(__file__).parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    candidates = [target / profile / "lockstep" for profile in ("release", "debug")]
    built = [path for path in candidates if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime) if built else None


def test_python_and_the_command_run_the_same_call(tmp_path: Path) -> None:
    program = command()
    if program is None:
        pytest.skip("the lockstep command is not built; make build")
    scores = tmp_path / "scores.json"
    words = "--clip generated:160x96@30 --seconds 2 --seed 5 --trace cellular:mean=1mbps,seed=3 --loss 3% --delay-ms 15"
    words += " --burst-loss 0.5%,30% --reorder 1%,15ms --loss-at 1s+100ms --jitter-ms 2.5 --queue-packets 100"
    subprocess.run(  # noqa: S603
        [program, "simulate", *words.split(), "--json", scores], check=True, capture_output=True
    )
    result = lockstep.simulate(
        "cellular:mean=1mbps,seed=3",
        loss=0.03,
        delay_ms=15.0,
        burst_loss=(0.005, 0.3),
        reorder=(0.01, 15),
        loss_at=[(1, 0.1)],
        jitter_ms=2.5,
        queue_packets=100,
        **SMALL,
    )
    assert json.loads(result.json) == json.loads(scores.read_text())


def test_the_same_goes_for_modelled_calls(tmp_path: Path) -> None:
    program = command()
    if program is None:
        pytest.skip("the lockstep command is not built; make build")
    scores = tmp_path / "scores.json"
    words = "--modelled --codec conventional --seconds 10 --seed 4 --trace constant:1mbps --controller bob-heuristic"
    subprocess.run(  # noqa: S603
        [program, "simulate", *words.split(), "--json", scores], check=True, capture_output=True
    )
    result = lockstep.simulate(
        "constant:1mbps", modelled=True, codec="conventional", seconds=10.0, seed=4, controller="bob-heuristic"
    )
    assert json.loads(result.json) == json.loads(scores.read_text())


def test_every_option_of_the_command_has_an_argument() -> None:
    names = {name.replace("-", "_") for name in _lockstep.simulate_options()}
    assert names == set(inspect.signature(lockstep.simulate).parameters)


def test_equal_seeds_give_equal_bytes_and_others_do_not() -> None:
    first, second = (lockstep.simulate("cellular:mean=2mbps", loss=0.02, **MODELLED) for _ in range(2))
    assert first.json == second.json
    assert first.frames.to_polars().equals(second.frames.to_polars())
    other = lockstep.simulate("cellular:mean=2mbps", loss=0.02, **{**MODELLED, "seed": 6})
    assert other.scores != first.scores


def test_frames_and_series_are_arrow_numpy_and_polars() -> None:
    result = lockstep.simulate("constant:2mbps", **MODELLED)
    frames = polars.DataFrame(result.frames)
    assert {name: frames.schema[name] for name in FRAME_COLUMNS} == FRAME_COLUMNS
    assert frames.height == len(result.frames) >= 300
    assert result.frames["displayed_at"].dtype == np.float64
    shown = int(np.isfinite(result.frames["displayed_at"]).sum())
    assert frames["displayed_at"].drop_nulls().len() == shown > 250
    assert result.frames["key_frame"].dtype == np.bool_
    assert set(result.frames["outcome"].tolist()) <= {"sent", "skipped_over_budget", "skipped_busy", "unfinished"}
    assert result.series.columns == ["time", "capacity_bps", "sent_bps", "received_bps", "queueing_delay_ms"]
    assert np.allclose(result.series["capacity_bps"], 2e6, rtol=0.02)
    assert result.series["time"][-1] == pytest.approx(9.9)
    assert result.series.to_polars()["received_bps"].mean() == pytest.approx(result.scores["throughput_bps"], rel=0.01)
    with pytest.raises(KeyError):
        result.frames["nosuch"]


def test_the_report_has_types() -> None:
    result = lockstep.simulate("constant:2mbps", **MODELLED)
    assert result.report.seed == 5
    delay = result.report.video_delay_ms
    assert delay is not None
    assert delay.p95 == result.scores["video_delay_ms"]["p95"]
    assert result.config["trace"] == "constant:2mbps"
    assert result.counters["link"]["delivered_packets"] > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trace": "nosuch.up"}, "no such file"),
        ({"trace": "constant:fast"}, "needs a number and a unit"),
        ({"loss": 1.5}, "--loss"),
        ({"controller": "reno"}, "no controller is called `reno`"),
        ({"seconds": -1.0}, "is not a time"),
        ({"queue": "lifo"}, "invalid value 'lifo'"),
        ({"clip": "generated:0x0"}, "is not WIDTHxHEIGHT"),
        ({"clip": "generated:64x48@4294967295"}, "at most 1000"),
        ({"modelled": True, "preset": "quality"}, "'--preset <PRESET>' cannot be used with '--modelled'"),
        ({"codec": "modelled", "menu": "serial"}, "'--menu <MENU>' cannot be used with '--modelled'"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        lockstep.simulate(**arguments)
    assert "\n" not in str(caught.value)


def test_a_clip_that_ends_before_the_call_is_warned_of(tmp_path: Path) -> None:
    clip = tmp_path / "short.y4m"
    pictures = [b"FRAME\n" + bytes((at * 7 + picture * 31) % 256 for at in range(270)) for picture in range(10)]
    clip.write_bytes(b"YUV4MPEG2 W18 H10 F25:1\n" + b"".join(pictures))
    with pytest.warns(UserWarning, match=r"ended after 0\.4 s of the 2 s"):
        result = lockstep.simulate("constant:1mbps", clip=clip, seconds=2.0)
    assert result.scores["scored_seconds"] == pytest.approx(0.4)
    assert result.report.scored_seconds == pytest.approx(0.4)


def test_an_interrupt_ends_a_long_call() -> None:
    # Where the tests run in the background of a shell, the signal is ignored and Python leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lockstep.simulate("constant:2mbps", **{**MODELLED, "seconds": 86_400.0})
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun < 30


def test_other_threads_go_on_while_a_call_runs() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.wait(0.001):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    lockstep.simulate("constant:1mbps", **SMALL)
    done.set()
    thread.join()
    assert counted > 5
