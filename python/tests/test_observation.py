"""Concerto's observation as a part of its study: its runs, its kept results, its statistics and its output."""

import json
import math
import os
import sys
from pathlib import Path

import polars
import pytest

from lockstep.sources_plot import SOURCES
from lockstep.studies import concerto, observation
from lockstep.studies.observation import LADDERS, LINK_MEANS, TRIED_MODELLED_SECONDS, against_full, links
from lockstep.studies.printed import PaperFigure, best_row, comparison, row_mean
from lockstep.study import TRIED_SECONDS, summary

COMMAND = """#!{python}
import json, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
if arguments[0] == "simulate":
    import polars
    # Every second has a half or twice the rate.
    kbps = int(arguments[arguments.index("--controller") + 1].removeprefix("fixed:").removesuffix("kbps"))
    sizes = [62.5 * kbps * (0.5 if index % 2 else 2.0) for index in range(4)]
    rows = [{{"captured_at": at + half, "outcome": "sent", "size": size, "fragments": 0}}
            for at, size in enumerate(sizes) for half in (0.0, 0.5)]
    polars.DataFrame(rows).write_parquet(arguments[arguments.index("--frames") + 1])
    sys.exit()
links, seed = arguments[arguments.index("--links") + 1], int(arguments[arguments.index("--seeds") + 1])
if seed == {failing}:
    sys.exit("lockstep: no room on the device")
calls, recoveries = [], []
for control in {ladders!r} + ["another"]:
    for source in {sources!r}:
        # Video has 80, 85 and 90 % of full throttle, by seed.
        rate = (75 + 5 * seed) * 10_000 if source == "video" else 1_000_000
        both = {{"control": control, "source": source, "seed": seed, "trace": "constant"}}
        calls.append({{**both, "throughput_bps": rate, "link_utilisation": 0.5, "one_way_delay_ms": None,
                      "packet_loss": 0.01, "reduction": 0.5, "reduction_ms": None, "recovery_ms": None,
                      "target_updates": 3, "samples_a_second": 50.0}})
        recoveries.append({{**both, "seconds": 10.0 * seed, "came_back": seed < 3, "reduction": None,
                           "samples_a_second": 25.0 if source == "video" else 50.0,
                           "received_bps": [rate] * 80, "capacity_bps": [1_000_000] * 80}})
print(json.dumps({{"calls": calls if links == "varying" else [],
                  "recoveries": recoveries if links == "returning" else []}}))
"""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command instead of `lockstep`, and the file with its arguments."""
    recorded = tmp_path / "heard"
    install(tmp_path, recorded)
    monkeypatch.setenv("LOCKSTEP_COMMAND", str(tmp_path / "lockstep"))
    monkeypatch.setattr(concerto, "torch_missing", lambda: True)
    monkeypatch.setattr(observation, "TARGETS_KBPS", (100, 1_000))
    monkeypatch.setattr(observation, "approach_seconds", lambda cell: 1.5 * cell["seed"])
    return recorded


def install(folder: Path, recorded: Path, failing: int = 0) -> None:
    command = folder / "lockstep"
    command.write_text(
        COMMAND.format(
            python=sys.executable, log=str(recorded), ladders=list(LADDERS), sources=SOURCES, failing=failing
        )
    )
    command.chmod(0o755)


def arguments_of(recorded: Path) -> list[list[str]]:
    lines = recorded.read_text().splitlines() if recorded.exists() else []
    recorded.unlink(missing_ok=True)
    return [json.loads(line) for line in lines]


def calls_of(recorded: Path) -> list[list[str]]:
    """The arguments without those of the short trials, which give the estimate."""
    trials = {str(TRIED_SECONDS), str(TRIED_MODELLED_SECONDS)}
    calls = [arguments for arguments in arguments_of(recorded) if arguments[0] == "sources"]
    return [arguments for arguments in calls if arguments[6] not in trials]


pytestmark = pytest.mark.skipif(os.name != "posix", reason="the command is a script")


def test_observation_runs_every_seed_once_without_pytorch(
    tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "study"
    words = ["--output", str(folder), "--parts", "observation"]
    assert concerto.main(words) == 0
    assert [(call[2], call[8], call[4]) for call in calls_of(recorded)] == [
        (*links, seed) for links in (("varying", "256"), ("varying", "40"), ("returning", "256")) for seed in "123"
    ]
    lines = capsys.readouterr().out
    assert "observation, budget small: 3 seeds" in lines
    # 4.303 is the quantile for two degrees of freedom; the standard deviation is 5.
    assert "-15.0 ± 12.4" in lines
    assert "paper -21.6 %; here -15.0 ± 12.4 %" in lines
    assert "full throttle's: paper 1.2; here 1.00 ± 0.00." in lines
    assert "paper 50.6 %; here 50 ± 0 %" in lines
    assert "paper 4.8; here 1.0 ± 0.0." in lines
    assert "paper up to 2; here 2.00 ± 0.00." in lines
    assert "paper at least 1 s; here 3.0 ± 3.7 s" in lines
    calls = polars.read_parquet(folder / "observation.parquet")
    assert calls["budget"].unique().to_list() == ["small"]
    assert calls["control"].unique().sort().to_list() == sorted([*LADDERS, "another"])
    short = polars.read_parquet(folder / "observation-short-queue.parquet")
    assert short["queue_packets"].unique().to_list() == [40]
    assert polars.read_parquet(folder / "observation-recovery.parquet")["budget"].unique().to_list() == ["small"]
    assert "budget small" in (folder / "observation.txt").read_text()
    codec = polars.read_parquet(folder / "observation-codec.parquet")
    assert codec["target_kbps"].unique().sort().to_list() == [100, 1_000]
    assert codec["deviation"].to_list() == pytest.approx([0.75] * 6)
    for name in ("observation", "observation-short-queue", "observation-recovery", "observation-codec"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "budget small" in (folder / f"{name}.html").read_text()
    # Finished calls are not run again, except after a change of the program.
    assert concerto.main(words) == 0
    assert arguments_of(recorded) == []
    (tmp_path / "lockstep").write_text((tmp_path / "lockstep").read_text() + "# another\n")
    assert concerto.main(words) == 0
    assert len(calls_of(recorded)) == 9
    assert concerto.main([*words, "--budget", "full", "--real", "--seeds", "1"]) == 0
    assert [("--coded" in call, call[6]) for call in calls_of(recorded)] == [
        (True, "300.0"),
        (False, "300.0"),
        (False, "240.0"),
    ]
    assert polars.read_parquet(folder / "observation.parquet")["budget"].unique().to_list() == ["full"]


def test_results_before_a_failure_are_kept(tmp_path: Path, recorded: Path) -> None:
    install(tmp_path, recorded, failing=2)
    words = ["--output", str(tmp_path / "study"), "--parts", "observation"]
    with pytest.raises(ValueError, match=r"lockstep sources failed with status 1: lockstep: no room on the device"):
        concerto.main(words)
    journal = (tmp_path / "study" / "concerto.journal").read_text()
    assert journal.count("\n") == 1
    assert json.loads(journal)["cell"]["seed"] == 1


def test_missing_pytorch_is_reported_before_training_parts(tmp_path: Path, recorded: Path) -> None:
    with pytest.raises(ValueError, match=r"trainings require PyTorch.* install .*torch.*--parts observation"):
        concerto.main(["--output", str(tmp_path / "study")])
    assert arguments_of(recorded) == []


def test_throughput_is_relative_to_full_throttle() -> None:
    rows = [
        {"control": control, "source": source, "seed": seed, "trace": trace, "throughput_mbps": rate * seed * trace}
        for control, rates in (("old", (2.0, 1.0)), ("new", (2.0, 3.0)))
        for source, rate in zip(("full throttle", "video"), rates, strict=True)
        for seed in (1, 2)
        for trace in (1, 3)
    ]
    means = summary(against_full(polars.DataFrame(rows)), ("control", "source"), ["against_full"])
    found = {(row["control"], row["source"]): row["against_full"] for row in means.iter_rows(named=True)}
    assert math.isnan(found.pop(("old", "full throttle")))
    assert math.isnan(found.pop(("new", "full throttle")))
    assert found == pytest.approx({("old", "video"): -50.0, ("new", "video"): 50.0})


def test_each_seed_has_its_own_links() -> None:
    assert links(1)[0] == "cellular:mean=1.5mbps,seed=1"
    assert len({*links(1), *links(2), *links(3)}) == 3 * len(LINK_MEANS)


def test_paper_figures_are_compared_with_measured_ones() -> None:
    figures = [
        PaperFigure("delay", "delay", "300 ms", "section 2", row_mean("ms", 0, "ms", who="a"), "Another queue."),
        PaperFigure("delay", "loss", "4 %", "section 2", row_mean("ms", 0, "ms", who="nobody"), "Another queue."),
        PaperFigure("threshold", "threshold", "30 %", "table 1", best_row(("none", "ms"), "who", "%"), "Another net."),
    ]
    means = polars.DataFrame({"who": ["a", "b"], "ms": [90.0, 100.0], "ms_half": [2.0, float("nan")]})
    lines = comparison(figures, "delay", means, "BoB").splitlines()
    assert lines[1] == "  delay: paper 300 ms; here 90 ± 2 ms. Another queue. [section 2]"
    assert len(lines) == 2, "a figure without a measurement has no line"
    assert "paper 30 %; here b % (the best ms)" in comparison(figures, "threshold", means, "BoB")
    assert "No figure of BoB is available" in comparison(figures, "beta", means, "BoB")
