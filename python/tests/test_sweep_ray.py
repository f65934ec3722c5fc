import sys
from pathlib import Path

import pytest
from fake_ray import FakeRay

from lockstep import sweep_ray
from lockstep.ray_cluster import LOCAL, ClusterError


@pytest.mark.parametrize(("count", "cores"), [(0, 4), (1, 4), (7, 2), (100, 3), (100, 1000)])
def test_split_covers_every_job_and_uses_every_core(count: int, cores: int) -> None:
    jobs = [{"key": str(number)} for number in range(count)]
    parts = sweep_ray.split(jobs, cores)
    assert [job for part in parts for job in part] == jobs
    assert len(parts) >= min(count, cores)
    assert all(1 <= len(part) <= sweep_ray.JOBS_OF_A_TASK for part in parts)


def fake_program(folder: Path, body: str) -> str:
    program = folder / "lockstep"
    program.write_text(f"#!{sys.executable}\nimport json, sys\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


ECHO = 'assert sys.argv[1:5] == ["sweep", "--workers", "1", "--job-file"]\n' + (
    'for job in json.load(open(sys.argv[5])): print(json.dumps({"key": job["key"]}))'
)


def test_cluster_machine_runs_the_command_on_its_jobs(tmp_path: Path) -> None:
    lines = sweep_ray.run_jobs(fake_program(tmp_path, ECHO), [{"key": "a"}, {"key": "b"}])
    assert lines == ['{"key": "a"}', '{"key": "b"}']


def test_failing_or_missing_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such trace"):
        sweep_ray.run_jobs(fake_program(tmp_path, 'sys.exit("no such trace")'), [{"key": "a"}])
    with pytest.raises(ClusterError, match="cannot run"):
        sweep_ray.run_jobs(str(tmp_path / "missing"), [{"key": "a"}])


def test_results_of_all_parts_arrive_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    jobs = [{"key": str(number)} for number in range(5)]
    printed: list[str] = []
    lines = sweep_ray.on_ray(LOCAL, fake_program(tmp_path, ECHO), jobs)
    assert sweep_ray.run(lines, printed.append) == 5
    assert ray.address == "local"
    assert sorted(printed) == [f'{{"key": "{number}"}}' for number in range(5)]


def test_missing_ray_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match="cannot import Ray"):
        next(sweep_ray.on_ray(LOCAL, "lockstep", [{"key": "a"}]))
