"""The plot of `lockstep sources`."""

import json
from pathlib import Path

import polars
import pytest

from lockstep.sources_plot import SOURCES, SourcesPlotError, chart, curves, load, main


def numbers(path: Path, sources: list[str]) -> Path:
    rows = [
        {
            "control": control,
            "source": source,
            "seed": seed,
            "received_bps": [500] * 60 + [700 + seed] * 20,
            "capacity_bps": [1_000] * 40 + [500] * 20 + [1_000] * 20,
        }
        for control, few in (("whole", False), ("two sources", True))
        for source in (sources[:2] if few else sources)
        for seed in (0, 100, 200)
    ]
    path.write_text(json.dumps({"calls": [], "recoveries": rows}))
    return path


def test_control_with_every_source_has_lines_and_intervals(tmp_path: Path) -> None:
    table = curves(load(numbers(tmp_path / "numbers.json", SOURCES)))
    assert table["control"].unique().to_list() == ["whole"]
    assert sorted(table["source"].unique()) == sorted(SOURCES)
    returned = table.row(by_predicate=(polars.col("source") == "video") & (polars.col("second") == 5), named=True)
    assert returned["share"] == pytest.approx(80.0)
    # 70, 80 and 90 %: the standard deviation is ten, and 4.303 is the quantile for two degrees of freedom.
    assert returned["high"] - returned["share"] == pytest.approx(4.303 * 10 / 3**0.5)
    layers = chart(table).to_dict()["spec"]["layer"]
    assert [layer["encoding"]["color"]["scale"]["domain"] for layer in layers] == [SOURCES, SOURCES]


def test_another_document_of_sources_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("", "[]", "{}", '{"recoveries": [{}]}', '{"recoveries": []}'):
        path = tmp_path / "other.json"
        path.write_text(content)
        with pytest.raises(SourcesPlotError):
            load(path)
        assert main([str(path), "--output", str(tmp_path / "plot.html")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
