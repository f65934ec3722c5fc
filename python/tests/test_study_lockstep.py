"""`lockstep study lockstep`: tables of sweeps, the front of delay and SSIM, and the families of traces."""

import json
from pathlib import Path

import polars
import pytest

from lockstep.content_hash import content_hash
from lockstep.studies import lockstep


def calls(controller: str, qoe_d: list[float], p95_ms: float, ssim_db: float) -> polars.DataFrame:
    """The calls of a controller in the form of a sweep."""
    bound = 4.5 if controller == lockstep.OWN else None
    row = {"controller": controller, "codec": "modelled", "qoe_d_bound": bound, "video_delay_ms_p95": p95_ms}
    rows = [{**row, "ssim_db_mean": ssim_db, "link_utilisation": 0.5, "qoe_d": value} for value in qoe_d]
    return polars.DataFrame(rows, schema_overrides={"qoe_d_bound": polars.Float64})


def four() -> polars.DataFrame:
    """A table of four controllers, one of them dominated by another."""
    parts = [
        calls("lockstep", [4.1, 4.3], 100.0, 15.0),
        calls("sprout", [4.1], 110.0, 14.9),
        calls("gcc", [4.0], 90.0, 14.0),
        calls("hindsight", [4.3], 50.0, 16.0),
    ]
    return lockstep.table(polars.concat(parts))


def test_front_has_no_dominated_controller() -> None:
    on_front = {row["controller"]: row["on_front"] for row in four().iter_rows(named=True)}
    assert on_front == {"lockstep": True, "sprout": False, "gcc": True, "hindsight": True}


def test_rows_have_means_intervals_and_worst_calls() -> None:
    row = four().filter(polars.col("controller") == "lockstep").row(0, named=True)
    assert (row["calls"], row["worst_qoe_d"]) == (2, 4.1)
    assert row["qoe_d"] == pytest.approx(4.2)
    assert row["qoe_d_half"] == pytest.approx(12.706 * 0.1)


def test_verdict_starts_at_the_best_classical_controller() -> None:
    verdict = lockstep.verdict(four())
    expected = "lockstep is +0.100 from sprout, the best classical one; hindsight +0.200, the upper bound +0.400"
    assert verdict == expected
    text = lockstep.words("a title", four())
    assert verdict in text
    assert "nan" not in text


def test_means_are_over_families_without_loss() -> None:
    rows = [
        four().with_columns(
            family=polars.lit(family), condition=polars.lit(condition), qoe_d=polars.col("qoe_d") + more
        )
        for family, condition, more in (("a", "clean", 0.0), ("b", "clean", 0.2), ("a", "loss-1", 9.0))
    ]
    found = lockstep.means(polars.concat(rows))
    own = found.filter(polars.col("controller") == "lockstep").row(0, named=True)
    assert own["qoe_d"] == pytest.approx(4.3)
    assert (own["calls"], own["family"]) == (4, lockstep.ALL_FAMILIES)


def test_manifest_is_a_family(tmp_path: Path) -> None:
    trace = tmp_path / "b"
    trace.write_text("10\n")
    manifest = tmp_path / "lte.json"
    split = {"folder": str(tmp_path), "files": [{"path": "b", "sha256": content_hash(trace)}], "train": []}
    manifest.write_text(json.dumps({**split, "test": ["b"]}))
    assert lockstep.families([manifest])["lte"] == [str(trace)]
    manifest.write_text(json.dumps({**split, "test": []}))
    with pytest.raises(ValueError, match="no trace to judge by"):
        lockstep.families([manifest])


def test_pairs_of_sweeps_are_estimated_by_their_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[tuple[list[str], float]] = []

    def run_both(_: object, __: Path, traces: list[str], ___: str, ____: object, *, seeds: int, seconds: float) -> None:
        tried.append((traces, seeds * seconds))

    monkeypatch.setattr(lockstep, "run_both", run_both)
    monkeypatch.setattr(lockstep, "timed", lambda run, share: run() or 1.0 / share)
    options = lockstep.parser().parse_args(["--output", str(tmp_path), "--seeds", "2"])
    judged = {"few": ["a"], "many": ["b"] * 9}
    plan = [("clean", "few", ("modelled",)), ("clean", "many", ("modelled",))]
    [work] = lockstep.works(options, judged, plan)
    assert tried == [(["a"], 2.0)]
    # 1 and 6 traces with two seeds, and calls of 60 s.
    assert (work.cells, work.cells * work.seconds) == (2, 14 * 30.0)


def test_a_failed_sweep_ends_the_study() -> None:
    with pytest.raises(ValueError, match="status 3"):
        lockstep.run(["sh", "-c", "exit 3"])
