"""The plot of the study of Concerto's observation."""

import json
from pathlib import Path

import pytest

from lockstep.concerto_plot import SOURCES, ConcertoPlotError, chart, load, main


def numbers(path: Path, sources: list[str]) -> Path:
    rows = [
        {
            "control": control,
            "source": source,
            "received_bps": [500] * 60 + [700 + seed] * 20,
            "capacity_bps": [1_000] * 40 + [500] * 20 + [1_000] * 20,
        }
        for control, few in (("whole", False), ("two sources", True))
        for source in (sources[:2] if few else sources)
        for seed in (0, 100)
    ]
    path.write_text(json.dumps({"calls": [], "recoveries": rows}))
    return path


def test_a_control_with_every_source_has_a_line_for_each(tmp_path: Path) -> None:
    table = load(numbers(tmp_path / "numbers.json", SOURCES))
    assert table["control"].unique().to_list() == ["whole"]
    assert sorted(table["source"].unique()) == sorted(SOURCES)
    assert dict(zip(table["second"], table["share"], strict=True))[5] == pytest.approx(75.0)
    domain = chart(table).to_dict()["spec"]["encoding"]["color"]["scale"]["domain"]
    assert domain == SOURCES


def test_what_the_study_has_not_written_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in ("", "[]", "{}", '{"recoveries": [{}]}', '{"recoveries": []}'):
        path = tmp_path / "other.json"
        path.write_text(content)
        with pytest.raises(ConcertoPlotError):
            load(path)
        assert main([str(path), "--output", str(tmp_path / "plot.html")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
