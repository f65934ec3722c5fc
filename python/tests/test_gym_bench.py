import json
from pathlib import Path

import pytest

from lockstep.gym import bench


def test_table_has_a_line_for_each_number_of_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "new" / "gym.json"
    assert bench.main(["--calls", "2", "5", "--steps", "11", "--threads", "1", "--json", str(document)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    speeds = json.loads(document.read_text())
    assert [(speed["calls"], speed["steps"]) for speed in speeds] == [(2, 12), (5, 15)]
    assert all(speed["per_cpu_second"] > 0 for speed in speeds)


def test_zero_calls_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--calls", "0"])
    assert "at least 1" in capsys.readouterr().err
