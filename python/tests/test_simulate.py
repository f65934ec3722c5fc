import copy
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
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
"""A short call with the real codec."""

MODELLED: dict[str, Any] = {"codec": "modelled", "clip": "generated:640x360@30", "seconds": 10.0, "seed": 5}


def command() -> Path | None:
    """The lockstep command, if it is built."""
    root = Path(__file__).parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    candidates = [target / profile / "lockstep" for profile in ("release", "debug")]
    built = [path for path in candidates if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime) if built else None


def test_python_and_the_command_run_the_same_call(tmp_path: Path) -> None:
    program = command()
    if program is None:
        pytest.skip("the lockstep command is not built; run make build")
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
    assert result.json.encode() == scores.read_bytes()


def test_python_and_the_command_run_the_same_modelled_call(tmp_path: Path) -> None:
    program = command()
    if program is None:
        pytest.skip("the lockstep command is not built; run make build")
    scores = tmp_path / "scores.json"
    words = "--modelled --codec conventional --seconds 10 --seed 4 --trace constant:1mbps --controller bob-heuristic"
    subprocess.run(  # noqa: S603
        [program, "simulate", *words.split(), "--json", scores], check=True, capture_output=True
    )
    result = lockstep.simulate(
        "constant:1mbps", modelled=True, codec="conventional", seconds=10.0, seed=4, controller="bob-heuristic"
    )
    assert result.json.encode() == scores.read_bytes()


def test_every_option_has_a_documented_argument() -> None:
    # The folder of the session log is not an option of the call.
    names = {*_lockstep.simulate_options(), "session_log", "session_labels"}
    assert names == set(inspect.signature(lockstep.simulate).parameters)
    arguments = (inspect.getdoc(lockstep.simulate) or "").partition("Args:")[2].partition("Raises:")[0]
    assert names == set(re.findall(r"^    (\w+): ", arguments, re.MULTILINE))


SHORT: dict[str, Any] = {"clip": "generated:160x96@30", "trace": "cellular:mean=1mbps,seed=3", "seconds": 1.0}
"""A call with the real codec, because some options have no effect on modelled calls."""

ESTIMATOR = Path(__file__).parent / "estimators" / "fixed.py"

EXAMPLES: dict[str, dict[str, Any]] = {
    "trace": {"trace": "constant:700kbps"},
    "codec": {"codec": "conventional"},
    "modelled": {"modelled": True},
    "controller": {"controller": "gcc"},
    "latency": {"controller": "sprout", "latency": "low", "trace": "constant:150kbps"},
    "model": {
        "controller": "lockstep",
        "model": Path(__file__).with_name("other_policy.onnx"),
        "trace": "constant:150kbps",
    },
    "max_bitrate": {"max_bitrate": "200kbps"},
    "tuning": {"tuning": {"functional.aim": 0.3, "rule.level": 0.2}, "trace": "constant:150kbps"},
    "estimator": {"estimator": ESTIMATOR},
    "clip": {"clip": "generated:128x96@25"},
    "seconds": {"seconds": 1.5},
    "seed": {"seed": 8},
    "reverse": {"reverse": "constant:50kbps"},
    "queue": {"queue": "codel", "controller": "gcc", "trace": "constant:100kbps"},
    "ecn": {"ecn": True, "queue": "codel", "controller": "gcc", "trace": "constant:100kbps"},
    "queue_packets": {"queue_packets": 2, "trace": "constant:100kbps"},
    "queue_bytes": {"queue_bytes": 3_000, "trace": "constant:100kbps"},
    "delay_ms": {"delay_ms": 7.5},
    "jitter_ms": {"jitter_ms": 2.5},
    "loss": {"loss": 0.1},
    "reverse_loss": {"reverse_loss": 0.3},
    "burst_loss": {"burst_loss": (0.05, 0.3)},
    "loss_at": {"loss_at": [(0.1, 0.05), (0.2, 0.05)]},
    "reorder": {"reorder": (0.3, 15)},
    "menu": {"menu": "serial"},
    "fit_passes": {"fit_passes": 1},
    "preset": {"preset": "quality"},
    "grace_period": {"controller": "salsify", "grace_period": "none"},
    "as_published": {"as_published": "salsify"},
    "encode_time": {"encode_time": Path(__file__).with_name("slow_machine.json")},
    "encode_ms": {"encode_ms": 5.0},
    "decode_ms": {"decode_ms": 1.5},
    "feedback_ms": {"feedback_ms": 0.0, "reverse": "constant:50kbps"},
    "two_way": {"two_way": True},
    "audio": {"audio": "tone"},
    "python": {"estimator": ESTIMATOR, "python": sys.executable},
    "estimator_limit": {"estimator": ESTIMATOR, "estimator_limit": 20.0},
    "vmaf": {"vmaf": True},
    "bound": {"bound": True, "modelled": True},
}
"""For each option a value other than the default, with the other options that it requires."""

OPTIONS = _lockstep.simulate_options()

UNRECORDED = {"python", "estimator_limit"}
"""Options that reports omit: they change the duration of a run, not its result."""


def example(option: str) -> dict[str, Any]:
    """A call with a value of `option` other than the default."""
    if option not in EXAMPLES:
        pytest.fail(f"lockstep.simulate has the option `{option}`: add a value other than the default to EXAMPLES")
    return {**SHORT, **EXAMPLES[option]}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_changes_the_call_and_is_in_its_report(option: str) -> None:
    arguments = example(option)
    call = lockstep.simulate(**arguments)
    needed = {name: value for name, value in EXAMPLES[option].items() if name != option}
    usual = lockstep.simulate(**{**SHORT, **needed})
    if option in UNRECORDED:
        assert option not in call.config
        assert call == usual
        return
    assert call.config[option] != usual.config[option], call.config
    assert call.scores != usual.scores


@pytest.mark.parametrize("option", OPTIONS)
def test_configuration_of_a_report_repeats_the_call(option: str) -> None:
    call = lockstep.simulate(**example(option))
    again = lockstep.simulate(**call.config)
    assert again.json == call.json


def test_options_of_the_estimators_process_reach_it(tmp_path: Path) -> None:
    with pytest.raises(lockstep.EstimatorError, match="nosuchpython"):
        lockstep.simulate(estimator=ESTIMATOR, python="nosuchpython", **SHORT)
    hangs = tmp_path / "hangs.py"
    hangs.write_text(ESTIMATOR.read_text().replace("return 500_000", "while True: pass"))
    with pytest.raises(lockstep.EstimatorError, match=r"hangs\.py: no answer within 0\.25 s"):
        lockstep.simulate(estimator=hangs, estimator_limit=0.25, **SHORT)


def test_audio_false_means_no_sound() -> None:
    assert lockstep.simulate(audio=False, **SHORT).json == lockstep.simulate(**SHORT).json
    assert lockstep.simulate(audio=True, **SHORT).json == lockstep.simulate(audio="tone", **SHORT).json


def test_value_may_be_text_as_on_the_command_line() -> None:
    words: dict[str, Any] = {"loss": "5%", "burst_loss": "1%,30%", "delay_ms": "7.5", "loss_at": ["0.1s+50ms"]}
    typed = lockstep.simulate(loss=0.05, burst_loss=(0.01, 0.3), delay_ms=7.5, loss_at=[(0.1, 0.05)], **SHORT)
    assert lockstep.simulate(**words, **SHORT).json == typed.json


def test_calls_are_byte_identical_only_for_equal_seeds() -> None:
    first, second = (lockstep.simulate("cellular:mean=2mbps", loss=0.02, **MODELLED) for _ in range(2))
    assert first.json == second.json
    assert first.frames.to_polars().equals(second.frames.to_polars())
    other = lockstep.simulate("cellular:mean=2mbps", loss=0.02, **{**MODELLED, "seed": 6})
    assert other.scores != first.scores


def test_calls_compare_by_their_results() -> None:
    first, second = (lockstep.simulate("cellular:mean=2mbps", loss=0.02, **MODELLED) for _ in range(2))
    assert first == second
    assert first.frames == second.frames
    assert first.series == second.series
    other = lockstep.simulate("cellular:mean=2mbps", loss=0.02, **{**MODELLED, "seed": 6})
    assert first != other
    assert first.frames != other.frames
    assert first.frames != first.series
    assert first.frames != "frames"


def test_call_can_be_pickled_and_copied() -> None:
    call = lockstep.simulate("cellular:mean=1mbps", loss=0.05, **MODELLED)
    for restored in (pickle.loads(pickle.dumps(call)), copy.deepcopy(call)):  # noqa: S301 -- our own
        assert restored == call
        assert restored.frames.to_polars().equals(call.frames.to_polars())
        assert restored.frames.to_polars().schema == call.frames.to_polars().schema
        assert restored.series.columns == call.series.columns
        assert restored.report == call.report
    assert call.frames["displayed_at"].size > np.isfinite(call.frames["displayed_at"]).sum(), (
        "some frames were never displayed"
    )


def test_damaged_pickled_table_is_refused() -> None:
    column = np.zeros(3)
    damaged: list[Any] = [
        [("time", column, np.ones(2, np.bool_), True)],
        [("time", column, None, True), ("rate", np.zeros(2), None, True)],
        [("time", np.zeros(3, np.complex128), None, True)],
        [("time", column, np.zeros(3, np.bool_), False)],
        [("outcome", ["sent", "sent"], np.ones(3, np.bool_), True)],
        [("shown", np.ones(2, np.bool_), np.ones(3, np.bool_), True)],
        [],
    ]
    for columns in damaged:
        with pytest.raises(ValueError, match="pickled table"):
            _lockstep.unpickled_table(columns)
    strided = _lockstep.unpickled_table([("time", np.arange(6.0)[::2], np.array([True, False] * 3)[::2], True)])
    assert strided["time"].tolist() == [0.0, 2.0, 4.0]


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
    displayed, freezes = result.report.displayed_delay_ms, result.report.freezes
    assert displayed is not None
    assert displayed.p95 == result.scores["displayed_delay_ms"]["p95"]
    assert freezes is not None
    assert freezes.longest_seconds == result.scores["freezes"]["longest_seconds"]
    assert result.report.frames_per_second == result.scores["frames_per_second"]
    assert result.report.harmonic_frame_rate == result.scores["harmonic_frame_rate"]
    assert result.config["trace"] == "constant:2mbps"
    assert result.counters["link"]["delivered_packets"] > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trace": "nosuch.up"}, "no such file"),
        ({"trace": "constant:fast"}, "needs a number and a unit"),
        ({"loss": 1.5}, "^loss: .*0 to 1"),
        ({"loss": float("nan")}, "^loss: .*expected a finite number"),
        ({"loss": ["much"]}, r"^loss: \["),
        ({"seed": -1}, "^seed: .*not a whole number"),
        ({"queue_packets": 2.5}, "^queue_packets: .*not a whole number"),
        ({"burst_loss": (0.1,)}, "^burst_loss: .*not a list of two values"),
        ({"modelled": "yes"}, "^modelled: .*neither true nor false"),
        ({"controller": "reno"}, "unknown controller `reno`: choose one of .*salsify.*gcc"),
        ({"seconds": -1.0}, "is not a time"),
        ({"queue": "lifo"}, "^queue: `lifo` is none of droptail, codel, pie$"),
        ({"menu": "fitt"}, "^menu: `fitt` is none of fit, serial, parallel$"),
        ({"fit_passes": 99}, "99 is not in 1..=8$"),
        ({"codec": "x264"}, "none of functional, conventional"),
        ({"controller": "gcc", "latency": "low"}, "^`latency` is for the controller sprout or lockstep, not for gcc"),
        ({"estimator": "mine.py", "controller": "gcc"}, "^`estimator` cannot be used with `controller`$"),
        ({"clip": "generated:0x0"}, "is not WIDTHxHEIGHT"),
        ({"clip": "generated:64x48@4294967295"}, "at most 1000"),
        ({"codec": "modelled", "menu": "serial", "fit_passes": 2}, "^`fit_passes` cannot be used with `menu`$"),
        ({"controller": 3}, "^controller: .*`3`: choose one of .*salsify"),
        ({"clip": 3}, "^clip: 3 is not text$"),
        ({"clip": ""}, "^clip: expected a name, found nothing$"),
        ({"tuning": {"silence.margn": 0.2}}, "^tuning: no constant is called silence.margn; similar"),
        ({"tuning": {"silence.margin": 9}}, "^tuning: silence.margin = 9: expected a number from 0 to 5"),
        ({"tuning": "silence.margin"}, '^tuning: expected NAME=VALUE, found "silence.margin"'),
        ({"tuning": ["silence.margin"]}, "^tuning: expected names with numbers"),
        ({"max_bitrate": 5_000_000}, "^max_bitrate: `5000000` is not a bit rate such as 5mbps"),
        ({"loss_at": [(-1, 1)]}, "^loss_at: time -1s is out of range, which is 0 to 49 days$"),
        ({"modelled": True, "audio": "nosuch.wav"}, r"cannot read nosuch\.wav"),
        ({"estimator": 3}, "^estimator: 3 is not a file and not an object with report_states"),
        ({"session_log": 3}, "^session_log: expected the path of a folder, found 3$"),
        ({"session_log": ""}, "^session_log: expected the path of a folder, found ''$"),
        (
            {"session_log": "logs", "session_labels": 3},
            "^session_labels: expected a mapping of names to texts .*, found 3$",
        ),
        (
            {"session_log": "logs", "session_labels": {"hour": 21}},
            "^session_labels: expected a mapping .*, found {'hour': 21}$",
        ),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        lockstep.simulate(**arguments)
    assert "\n" not in str(caught.value)


def test_folder_of_a_session_log_is_made_before_the_call(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"modelled": True, "seconds": 1.0}
    with pytest.raises(OSError, match=r"session_log: cannot make the folder: File name too long: '.*\.\.\.'$"):
        lockstep.simulate("constant:1mbps", **arguments, session_log=tmp_path / ("long" * 100))
    with pytest.raises(ValueError, match=r"^session_log: cannot make the folder 'a.*: embedded null"):
        lockstep.simulate("constant:1mbps", **arguments, session_log="a\0b")


def test_clip_shorter_than_the_call_gives_a_warning(tmp_path: Path) -> None:
    clip = tmp_path / "short.y4m"
    pictures = [b"FRAME\n" + bytes((at * 7 + picture * 31) % 256 for at in range(270)) for picture in range(10)]
    clip.write_bytes(b"YUV4MPEG2 W18 H10 F25:1\n" + b"".join(pictures))
    with pytest.warns(UserWarning, match=r"ended after 0\.4 s of the requested 2 s"):
        result = lockstep.simulate("constant:1mbps", clip=clip, seconds=2.0)
    assert result.scores["scored_seconds"] == pytest.approx(0.4)
    assert result.report.scored_seconds == pytest.approx(0.4)


def test_an_interrupt_ends_a_long_call() -> None:
    # In a background shell job the signal is ignored, and Python does not change that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lockstep.simulate("constant:2mbps", **{**MODELLED, "seconds": 86_400.0})
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun < 60, "the call takes many minutes"


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass\n",
        "class Estimator:\n def report_states(self, _): 0\n def get_estimated_bandwidth(self):\n  while True: pass\n",
    ],
    ids=["loading", "answering"],
)
def test_interrupt_ends_the_wait_for_a_hanging_estimator(tmp_path: Path, source: str) -> None:
    # Like Ctrl-C in a terminal: a signal to this process and to the estimator's.
    (tmp_path / "estimator.py").write_text(f"open('begun', 'w').close()\n{source}")
    program = (
        "import lockstep, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    lockstep.simulate(estimator=sys.argv[1], codec='modelled', seconds=10.0, estimator_limit=600.0)\n"
        "except BaseException as error:\n"
        "    print(type(error).__name__)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "estimator.py")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:  # noqa: S603
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, "the process ended early"
            time.sleep(0.02)
        for _ in range(100):
            # Repeat it, because it may arrive before the first request to the estimator.
            os.killpg(process.pid, signal.SIGINT)
            try:
                output, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                continue
        else:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail("the process did not end within fifty seconds of interrupts")
    assert output == "KeyboardInterrupt\n"


def test_interrupt_ends_a_call_with_a_hanging_estimator(tmp_path: Path) -> None:
    # Like the stop button of a debugger or notebook: a signal to this process only.
    (tmp_path / "estimator.py").write_text("open('begun', 'w').close()\nwhile True: pass\n")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    begun = time.monotonic()
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lockstep.simulate(estimator=tmp_path / "estimator.py", estimator_limit=600.0, **MODELLED)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun < 60, "the limit of loading is 600 s"


def test_documentation_names_the_errors_of_estimators() -> None:
    documented = inspect.getdoc(lockstep.simulate) or ""
    for error in ("lockstep.EstimatorError", "lockstep.alphartc.UnusableError"):
        assert error in documented
    assert "answered what is no bandwidth" in (inspect.getdoc(lockstep.EstimatorError) or "")
    assert issubclass(lockstep.EstimatorError, RuntimeError)
    assert pickle.loads(pickle.dumps(lockstep.EstimatorError("late"))).args == ("late",)  # noqa: S301 -- our own


def test_other_threads_run_during_a_call() -> None:
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
