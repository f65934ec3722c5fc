"""Studies: kept results, tables and plots."""

import math
from collections.abc import Mapping
from pathlib import Path

import polars
import pytest

from lockstep.intervals import mean_interval
from lockstep.studies.__main__ import main
from lockstep.study import Cell, Study, Work, chart, print_table, rough_time, summary, time_left, timed

CELLS = [{"controller": name, "seed": seed} for name in ("gcc", "salsify") for seed in (1, 2)]


def measure(cell: Cell) -> Mapping[str, float]:
    return {"delay": 100.0 * cell["seed"] + len(cell["controller"])}


def test_killed_study_runs_only_unfinished_cells(tmp_path: Path) -> None:
    first = Study("tiny", tmp_path, quiet=True).run(CELLS, measure)
    journal = tmp_path / "tiny.journal"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:2]) + lines[2][: len(lines[2]) // 2])
    ran = []

    def again(cell: Cell) -> Mapping[str, float]:
        ran.append(dict(cell))
        return measure(cell)

    second = Study("tiny", tmp_path, quiet=True).run(CELLS, again)
    assert ran == CELLS[2:]
    assert second.equals(first)
    assert Study("tiny", tmp_path, quiet=True).run(CELLS, again, workers=2).equals(first)
    assert ran == CELLS[2:]
    Study("tiny", tmp_path, fresh=True, quiet=True).run(CELLS[:1], again)
    assert ran == [*CELLS[2:], CELLS[0]]


def test_a_study_prints_its_size_before_the_first_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before: list[str] = []

    def first(cell: Cell) -> Mapping[str, float]:
        before.append(capsys.readouterr().err)
        return measure(cell)

    Study("tiny", tmp_path).run(CELLS[:1], first)
    assert before == ["study tiny: 1 cells; the first to finish gives the time left\n"]
    before.clear()
    Study("tiny", tmp_path).run(CELLS, first)
    assert before[0].splitlines()[-1].startswith("study tiny: 4 cells, 1 of them finished earlier; the first")


def test_estimate_counts_unfinished_cells_and_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study("tiny", tmp_path)
    study.run(CELLS[:1], measure)
    capsys.readouterr()
    left = len(study.unfinished(CELLS))
    study.announce([Work("calls", left, 100.0, workers=2), Work("trainings", 0, 1e6)])
    assert capsys.readouterr().err == "study tiny: 3 calls; about 3 min in all\n"
    study.announce([Work("calls", 0, 100.0)])
    assert capsys.readouterr().err == ""


def test_time_of_a_cell_is_that_of_its_trial_over_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 13.0])
    monkeypatch.setattr("lockstep.study.time.monotonic", lambda: next(times))
    assert timed(lambda: None, 0.25) == 12.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119.0, "119 s"), (150.0, "2 min"), (7000.0, "117 min"), (9000.0, "2.5 h")]
)
def test_rough_times_have_readable_units(seconds: float, text: str) -> None:
    assert rough_time(seconds) == text


def test_time_left_is_that_of_equal_steps() -> None:
    assert time_left(30.0, 2, 8) == "30 s, 90 s left"


def test_failed_cell_keeps_others_in_the_journal(tmp_path: Path) -> None:
    def failing(cell: Cell) -> Mapping[str, float]:
        if cell["seed"] == 2:
            raise ValueError("no such trace")
        return measure(cell)

    with pytest.raises(ValueError, match="no such trace"):
        Study("tiny", tmp_path, quiet=True).run(CELLS, failing)
    assert '"seed": 1' in (tmp_path / "tiny.journal").read_text()


def test_interval_is_students_t() -> None:
    # 2.776 is the quantile for four degrees of freedom; the variance of 1 to 5 is 2.5.
    mean, half = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3.0
    assert half == pytest.approx(2.776 * math.sqrt(2.5 / 5))
    assert mean_interval([7.0])[0] == 7.0
    assert math.isnan(mean_interval([7.0])[1])
    assert math.isnan(mean_interval([])[0])


@pytest.mark.slow
def test_traces_are_averaged_before_seeds_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"who": "a", "trace": trace, "seed": seed, "delay": 10.0 * trace} for trace in (1, 5) for seed in (1, 2)]
    means = summary(polars.DataFrame(rows), ["who"], ["delay"])
    assert means["delay"].to_list() == [30.0]
    assert means["delay_half"].to_list() == [0.0]
    print_table(means, ["who"], {"delay": 1}, {"a": "31 ms"})
    assert "30.0 ± 0.0   31 ms" in capsys.readouterr().out
    plot = chart(means, ["who"], {"delay": "delay, ms"}, "Delay")
    Study("tiny", tmp_path, quiet=True).write("part", means, {"plot": plot})
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert polars.read_parquet(tmp_path / "part.parquet").equals(means)


def test_unknown_study_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["imitation"]) == 2
    error = capsys.readouterr().err
    assert "there is no study called 'imitation'" in error
    assert "concerto " in error
