import sys
from pathlib import Path

import pytest
from fake_ray import FakeRay

from lockstep import sweep_ray
from lockstep.ray_cluster import LOCAL, ClusterError


@pytest.mark.parametrize(("count", "cores"), [(0, 4), (1, 4), (7, 2), (100, 3), (100, 1000)])
def test_every_job_is_in_one_part_and_no_core_is_left_without(count: int, cores: int) -> None:
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


def test_a_machine_of_the_cluster_runs_the_command_on_its_jobs(tmp_path: Path) -> None:
    lines = sweep_ray.run_jobs(fake_program(tmp_path, ECHO), [{"key": "a"}, {"key": "b"}])
    assert lines == ['{"key": "a"}', '{"key": "b"}']


def test_a_command_that_fails_or_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such trace"):
        sweep_ray.run_jobs(fake_program(tmp_path, 'sys.exit("no such trace")'), [{"key": "a"}])
    with pytest.raises(ClusterError, match="cannot be run"):
        sweep_ray.run_jobs(str(tmp_path / "missing"), [{"key": "a"}])


def test_all_jobs_come_back_whatever_part_is_done_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    jobs = [{"key": str(number)} for number in range(5)]
    said: list[str] = []
    lines = sweep_ray.on_ray(LOCAL, fake_program(tmp_path, ECHO), jobs)
    assert sweep_ray.run(lines, said.append) == 5
    assert ray.address == "local"
    assert sorted(said) == [f'{{"key": "{number}"}}' for number in range(5)]


def test_a_python_without_ray_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match="Ray is missing"):
        next(sweep_ray.on_ray(LOCAL, "lockstep", [{"key": "a"}]))
