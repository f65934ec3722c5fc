from pathlib import Path

import polars
import pytest

from lockstep import sweep_plot
from lockstep.figure import colours

ROWS = [
    {
        "controller": controller,
        "codec": codec,
        "trace": trace,
        "seed": seed,
        "video_delay_ms_p95": None if (controller, seed) == ("gcc", 3) else 100.0 + 40.0 * seed,
        "ssim_db_mean": 12.0 + seed,
        "throughput_bps": 1e6 * seed,
        "link_utilisation": 0.5 + 0.1 * seed,
    }
    for controller in ("salsify", "gcc")
    for codec in ("modelled", "modelled-conventional")
    for trace in ("constant:1mbps",)
    for seed in (1, 2, 3)
]


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.parquet"
    polars.DataFrame(ROWS).write_parquet(path)
    return path


@pytest.mark.parametrize("against", ["ssim", "throughput", "utilisation"])
def test_sweep_is_plotted_as_a_picture(sweep: Path, tmp_path: Path, against: str) -> None:
    picture = tmp_path / "plots" / "sweep.png"
    assert sweep_plot.main([str(sweep), "--against", against, "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_page_names_every_controller_and_loads_nothing(sweep: Path, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    assert sweep_plot.main([str(sweep), "--output", str(page)]) == 0
    text = page.read_text()
    assert "salsify" in text
    assert "gcc" in text
    assert "<script src" not in text


def test_several_sweeps_give_one_plot(sweep: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "other.parquet", tmp_path / "both.html"
    calls = polars.DataFrame(ROWS)
    calls.with_columns(polars.lit("hindsight").alias("controller")).write_parquet(other)
    assert sweep_plot.main([str(sweep), str(other), "--output", str(page)]) == 0
    text = page.read_text()
    assert "salsify" in text
    assert "hindsight" in text


def test_plot_uses_names_of_controllers(sweep: Path, tmp_path: Path) -> None:
    path = tmp_path / "named.parquet"
    names = polars.when(controller="gcc").then(polars.lit("mine.py")).otherwise(polars.lit("yours.py")).alias("name")
    calls = polars.DataFrame(ROWS).with_columns(names, polars.lit("receiver-estimate").alias("controller"))
    calls.write_parquet(path)
    drawn = sweep_plot.joined([sweep, path], sweep_plot.MEASURES["ssim"])
    assert set(drawn["controller"]) == {"salsify", "gcc", "mine.py", "yours.py"}


def test_equal_names_of_different_estimators_are_distinguished(tmp_path: Path) -> None:
    paths = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for path in paths:
        calls = polars.DataFrame(ROWS).filter(controller="gcc")
        named = calls.with_columns(polars.lit("mine.py").alias("name"), polars.lit(path.stem).alias("estimator_hash"))
        named.write_parquet(path)
    drawn = sweep_plot.joined(paths, sweep_plot.MEASURES["ssim"])
    assert set(drawn["controller"]) == {f"mine.py ({path})" for path in paths}


def test_plot_has_a_point_per_call_and_per_mean(sweep: Path) -> None:
    measure = sweep_plot.MEASURES["ssim"]
    calls = sweep_plot.joined([sweep], measure)
    assert len(calls) == 10
    data = sweep_plot.chart(calls, measure).to_dict()["datasets"].values()
    means = next(rows for rows in data if "calls" in rows[0])
    gcc = next(row for row in means if row["controller"] == "gcc")
    assert (len(means), gcc["calls"], gcc["delay"], gcc["value"]) == (4, 2, 160.0, 13.5)


def test_unplottable_sweep_is_reported_in_one_line(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.parquet"
    polars.DataFrame({"controller": ["salsify"]}).write_parquet(other)
    garbage = tmp_path / "garbage.parquet"
    garbage.write_bytes(b"PAR1 but not really")
    for arguments, reason in [
        ([str(other)], "column codec is missing"),
        ([str(garbage)], "as a table of"),
        ([str(tmp_path / "none.parquet")], "cannot read"),
        ([str(sweep), "--against", "vmaf"], "column vmaf is missing"),
        ([str(sweep), "--output", str(tmp_path / "sweep.txt")], "a name that ends in .html, .png"),
    ]:
        assert sweep_plot.main(arguments) == 1
        error = capsys.readouterr().err
        assert reason in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(("kind", "start"), [("pdf", b"%PDF"), ("svg", b"<svg"), ("csv", b"controller,codec")])
def test_figure_for_a_paper_has_the_format_of_its_name(sweep: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    output = tmp_path / f"sweep.{kind}"
    assert sweep_plot.main([str(sweep), "--output", str(output)]) == 0
    assert output.read_bytes().startswith(start)


def test_table_for_a_paper_has_intervals_over_seeds(sweep: Path, tmp_path: Path) -> None:
    output = tmp_path / "sweep.tex"
    assert sweep_plot.main([str(sweep), "--output", str(output)]) == 0
    text = output.read_text()
    # Three seeds with 13, 14 and 15 dB: 14 with an interval of 4.303 / sqrt(3).
    assert r"salsify & modelled & $180 \pm 99$ & $14.00 \pm 2.48$ \\" in text
    assert text.endswith("\\end{tabular}\n")


def test_format_that_no_figure_has_is_refused(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep_plot.main([str(sweep), "--output", str(tmp_path / "sweep.doc")]) == 1
    assert "expected a name that ends in .html, .png, .svg, .pdf, .csv" in capsys.readouterr().err


def test_controller_has_one_colour_in_every_plot() -> None:
    assert colours(["gcc", "mine"])[0] == colours(["copa", "gcc", "lockstep"])[1]
    assert len(set(colours(["gcc", "mine", "other", "lockstep"]))) == 4
