import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.alphartc import Gym, GymEnv, PacketStats
from lockstep.alphartc.worker import UnusableError, bits_per_second

CALL: dict[str, Any] = {"codec": "modelled", "clip": "generated:1280x720@30", "seconds": 5.0, "seed": 3}

SHARED_TRACES = Path(os.environ.get("LOCKSTEP_SHARED", Path(__file__).parents[3] / "shared")) / "traces/alphartc"


def write(folder: Path, answer: str, *, before: str = "", report: str = "pass") -> Path:
    """An estimator that returns the expression ``answer``."""
    path = folder / "BandwidthEstimator.py"
    path.write_text(
        f"{before}\nclass Estimator(object):\n    def __init__(self):\n        self.seen = []\n"
        f"    def report_states(self, stats: dict):\n        {report}\n"
        f"    def get_estimated_bandwidth(self) -> int:\n        return {answer}\n"
    )
    return path


def mean_rate(**arguments: Any) -> float:
    result = lockstep.simulate("constant:5mbps", **{**CALL, **arguments})
    return float(np.mean(result.series["received_bps"][20:]))


class Fixed:
    """An estimator object."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.packets: list[PacketStats] = []

    def report_states(self, stats: PacketStats) -> None:
        self.packets.append(stats)

    def get_estimated_bandwidth(self) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("before", "answer"),
    [
        ("", "1_000_000"),
        ("import numpy as np", "np.float32(1e6)"),
        ("import numpy as np", "np.int64(1_000_000)"),
        ("import numpy as np", "np.array([1e6])"),
        ("", "(1e6, 300_000)"),
        ("from neighbours.rates import RATE", "RATE"),
        ("RATE = int(open('./model/rate.txt').read())", "RATE"),
        ("import time", "1e6 if 0 < time.time() - 1_609_459_200 < 10 and time.sleep(100) is None else 0"),
    ],
)
def test_the_estimate_of_a_file_is_the_rate(tmp_path: Path, before: str, answer: str) -> None:
    for name, text in {"neighbours/rates.py": "RATE = 1_000_000\n", "model/rate.txt": "1000000"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert mean_rate(estimator=write(tmp_path, answer, before=before)) == pytest.approx(1e6, rel=0.15)


def test_random_estimator_repeats_with_equal_seed(tmp_path: Path) -> None:
    before = "import random, numpy as np\nGENERATOR = np.random.default_rng()"
    answer = "random.uniform(5e5, 1e6) + np.random.uniform(0, 1e5) + GENERATOR.uniform(0, 1e5)"
    path = write(tmp_path, answer, before=before)
    first, second = (lockstep.simulate("constant:5mbps", estimator=path, **CALL) for _ in range(2))
    assert first.json == second.json
    other = lockstep.simulate("constant:5mbps", estimator=path, **{**CALL, "seed": 4})
    assert not np.array_equal(first.series["received_bps"], other.series["received_bps"])


def test_clock_of_an_estimator_shows_packet_time(tmp_path: Path) -> None:
    before = "import time\nfrom datetime import datetime\nSTART = time.monotonic()"
    report = "self.seen.append(abs(1000 * (time.monotonic() - START) - stats['arrival_time_ms']))"
    path = write(tmp_path, "1e6 if max(self.seen) <= 1 else 1 / 0", before=before, report=report)
    assert mean_rate(estimator=path) == pytest.approx(1e6, rel=0.15)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("1 / 0", "get_estimated_bandwidth raised ZeroDivisionError"),
        ("None", "returned None"),
        ("-5", "returned -5"),
        ("float('nan')", "returned nan"),
        ("'fast'", "returned 'fast'"),
        ("exit()", "raised SystemExit"),
    ],
)
def test_failing_estimator_file_ends_only_its_call(tmp_path: Path, answer: str, message: str) -> None:
    path = write(tmp_path, answer)
    with pytest.raises(lockstep.EstimatorError, match=message) as caught:
        lockstep.simulate(estimator=path, **CALL)
    assert str(path) in str(caught.value)
    assert lockstep.simulate("constant:1mbps", **CALL).scores["frames"]["captured"] > 0


def test_hanging_estimator_file_times_out(tmp_path: Path) -> None:
    path = write(tmp_path, "[time.perf_counter() for _ in iter(int, 1)]", before="import time")
    with pytest.raises(lockstep.EstimatorError, match=r"no answer within 0\.5 s"):
        lockstep.simulate(estimator=path, estimator_limit=0.5, **CALL)


def test_missing_or_invalid_estimator_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lockstep.EstimatorError, match="no such file"):
        lockstep.simulate(estimator=tmp_path / "nosuch.py", **CALL)
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(lockstep.EstimatorError, match="has no class Estimator"):
        lockstep.simulate(estimator=tmp_path / "empty.py", **CALL)
    with pytest.raises(ValueError, match="cannot be used with"):
        lockstep.simulate(estimator=tmp_path / "empty.py", controller="salsify", **CALL)


def test_output_of_an_estimator_does_not_mix_with_answers(tmp_path: Path) -> None:
    path = write(tmp_path, "(os.system('echo {}'), 1e6)[1]", before="import os", report="print('{\"estimate\": 1}')")
    assert mean_rate(estimator=path) == pytest.approx(1e6, rel=0.15)


def test_estimator_object_receives_every_packet() -> None:
    estimator = Fixed(np.float32(1e6))
    result = lockstep.simulate("constant:5mbps", estimator=estimator, **CALL)
    assert float(np.mean(result.series["received_bps"][20:])) == pytest.approx(1e6, rel=0.15)
    sequence = [packet["sequence_number"] for packet in estimator.packets]
    assert sequence == list(range(len(sequence)))
    assert len(sequence) > 300
    assert {packet["payload_type"] for packet in estimator.packets} == {126}
    assert all(packet["arrival_time_ms"] - packet["send_time_ms"] >= 20 for packet in estimator.packets)


def test_exception_of_an_estimator_object_is_unchanged() -> None:
    class Broken(Fixed):
        def get_estimated_bandwidth(self) -> Any:
            raise KeyError("nosuch")

    with pytest.raises(KeyError, match="nosuch"):
        lockstep.simulate(estimator=Broken(0), **CALL)
    for answer, message in ((None, "returned None"), (10**400, "too large"), ([10**5000], "too large")):
        with pytest.raises(UnusableError, match=message):
            lockstep.simulate(estimator=Fixed(answer), **CALL)


def test_numbers_of_any_library_are_accepted() -> None:
    assert bits_per_second(np.float64(3.5)) == 3.5
    assert bits_per_second([np.int32(7), None]) == 7
    several: list[Any] = [None, "1", -1, math.inf, np.nan, True, (), {}, np.array("x")]
    for nonsense in several:
        with pytest.raises(UnusableError):
            bits_per_second(nonsense)


def alphartc_trace(path: Path, kbps: int, milliseconds: int, **more: float) -> Path:
    pattern = [{"duration": milliseconds, "capacity": kbps, "loss": 0, "jitter": 0, "time": 0.0, **more}]
    path.write_text(json.dumps({"type": "video", "downlink": {}, "uplink": {"trace_pattern": pattern}}))
    return path


def run_gym(gym: Gym, rate: float) -> tuple[list[list[PacketStats]], list[bool]]:
    steps: list[list[PacketStats]] = []
    ends: list[bool] = []
    while not ends or not ends[-1]:
        packets, done = gym.step(rate)
        steps.append(packets)
        ends.append(done)
    return steps, ends


def test_gym_has_alphartc_names(tmp_path: Path) -> None:
    gym = GymEnv("any")
    gym.reset(
        trace_path=str(alphartc_trace(tmp_path / "t.json", 2_000, 60_000)),
        report_interval_ms=200,
        duration_time_ms=6_000,
    )
    steps, ends = run_gym(gym, 1_000_000)
    assert ends == [False] * 29 + [True]
    packets = [packet for step in steps for packet in step]
    assert list(packets[0]) == list(PacketStats.__annotations__)
    size = sum(packet["payload_size"] + packet["header_length"] for step in steps[10:] for packet in step)
    assert 8 * size / 4.0 == pytest.approx(1e6, rel=0.15)
    for index, step in enumerate(steps):
        assert all(200 * index <= packet["arrival_time_ms"] <= 200 * (index + 1) for packet in step)
    with pytest.raises(RuntimeError, match="over"):
        gym.step(1)


def test_gym_takes_length_and_round_trip_from_trace(tmp_path: Path) -> None:
    gym = Gym(delay_ms=0)
    gym.reset(alphartc_trace(tmp_path / "t.json", 2_000, 1_500, rtt=100))
    steps, ends = run_gym(gym, 300_000)
    assert len(ends) == 25
    delays = [packet["arrival_time_ms"] - packet["send_time_ms"] for step in steps for packet in step]
    assert 50 <= min(delays) < 70


def test_gyms_with_equal_seed_repeat_and_episodes_differ(tmp_path: Path) -> None:
    path = alphartc_trace(tmp_path / "t.json", 1_000, 3_000, loss=0.05)

    def episodes() -> list[list[list[PacketStats]]]:
        gym = Gym(seed=9)
        runs = []
        for _ in range(2):
            gym.reset(path)
            runs.append(run_gym(gym, 500_000)[0])
        return runs

    first = episodes()
    assert first == episodes()
    assert first[0] != first[1]


def test_gym_refuses_invalid_use(tmp_path: Path) -> None:
    gym = Gym()
    with pytest.raises(RuntimeError, match="reset the gym"):
        gym.step(1)
    with pytest.raises(FileNotFoundError):
        gym.reset(tmp_path / "nosuch.json")
    (tmp_path / "broken.json").write_text('{"uplink": 3}')
    with pytest.raises(ValueError, match=r"broken\.json"):
        gym.reset(tmp_path / "broken.json")
    trace = alphartc_trace(tmp_path / "t.json", 1_000, 3_000)
    for name, value in (("report_interval_ms", 0), ("report_interval_ms", -1), ("duration_time_ms", 2**40)):
        numbers: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=f"^{name}: {value} is not a whole number from"):
            gym.reset(trace, **numbers)
    gym.reset(trace)
    with pytest.raises(ValueError, match="expected a finite bandwidth"):
        gym.step(math.nan)
    with pytest.raises(ValueError, match=r"^bandwidth_bps: expected a finite bandwidth"):
        gym.step(10**400)


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 1.5), ("seed", 2**64), ("queue_packets", 2**40)])
def test_gym_names_the_argument_out_of_range(name: str, value: float) -> None:
    numbers: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"^{name}: {value} is not a whole number from"):
        Gym(**numbers)


def test_seed_wraps_after_the_last(tmp_path: Path) -> None:
    path = alphartc_trace(tmp_path / "t.json", 1_000, 1_000, loss=0.2)

    def second(gym: Gym) -> list[list[PacketStats]]:
        gym.reset(path)
        gym.reset(path)
        return run_gym(gym, 500_000)[0]

    first = Gym(seed=0)
    first.reset(path)
    assert second(Gym(seed=2**64 - 1)) == run_gym(first, 500_000)[0]


@pytest.mark.skipif(not SHARED_TRACES.is_dir(), reason="the shared traces are missing")
def test_gym_runs_alphartc_traces() -> None:
    for path in sorted(SHARED_TRACES.glob("*.json")):
        gym = Gym()
        gym.reset(path, duration_time_ms=2_000)
        steps, _ = run_gym(gym, 200_000)
        assert sum(map(len, steps)) > 10, path.name
