"""Arguments of trainings. None of these tests requires PyTorch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.distribution import install_command
from lockstep.learn import ALGORITHMS
from lockstep.learn.__main__ import export, main
from lockstep.learn.arguments import parser

MODELS = Path(__file__).parents[1] / "lockstep" / "learn" / "models"


def test_unknown_algorithm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alchemy"]) == 2
    assert "no algorithm called 'alchemy'" in capsys.readouterr().err


OWN = ("algorithm", "seed", "traces", "split", "begin", "rule", "generations", "target_level")
"""Parts of a card's setting that belong to that training: its data, and a given rule."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_are_the_setting_of_the_shipped_model(algorithm: str) -> None:
    setting = json.loads((MODELS / f"{algorithm}.json").read_text())["setting"]
    defaults = vars(parser(algorithm).parse_args(["--output", "nowhere"]))
    shipped = {name: value for name, value in setting.items() if name not in OWN}
    assert {name: defaults[name] for name in shipped} == shipped


def test_published_settings_are_defaults_in_any_order() -> None:
    def of(*words: str) -> tuple[object, ...]:
        made = parser("bob").parse_args(["--output", "nowhere", *words])
        return made.as_published, made.episodes, made.learning_rate, made.dropout, made.windows, made.epochs

    assert of("--as-published") == (True, 2_000, 3e-5, 0.5, 4_000, 20)
    assert of("--dropout", "0.1", "--as-published") == of("--as-published", "--dropout", "0.1")
    assert of("--as-published", "--dropout", "0.1")[3] == 0.1
    assert of()[:2] == (False, None)
    concerto = parser("concerto").parse_args(["--output", "nowhere", "--as-published"])
    assert (concerto.interval_ms, concerto.ladder, concerto.expert) == (1_000, "paper", "drains")
    assert (concerto.loops * concerto.epochs, concerto.batch, concerto.expert_share) == (20, 32, 0.5)
    rlv = parser("rlv").parse_args(["--output", "nowhere", "--as-published"])
    assert (rlv.clone_loops, rlv.interval_ms, rlv.discount) == (0, 1_000, 0.99)


def refused(algorithm: str, folder: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The error for refused arguments, without the name of the argument."""
    with pytest.raises(SystemExit) as ended:
        main([algorithm, "--output", str(folder), *words])
    assert ended.value.code == 2
    return capsys.readouterr().err.partition("error: argument ")[2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("--updates", ("-1", "0", "1.5", "many")),
        ("--windows", ("0",)),
        ("--calls", ("0", "-4")),
        ("--call-seconds", ("0", "-1", "nan", "inf")),
        ("--discount", ("5", "-0.1", "nan")),
        ("--gae-lambda", ("1.01", "nan")),
        ("--epochs", ("0",)),
        ("--minibatches", ("0",)),
        ("--learning-rate", ("-1", "0", "nan", "inf")),
        ("--last-rate", ("2",)),
        ("--clip", ("0",)),
        ("--divergence", ("-1", "nan")),
        ("--round", ("0",)),
        ("--dropout", ("1", "-0.5", "nan")),
        ("--threshold", ("0", "2.5")),
        ("--interval-ms", ("0", "100000")),
        ("--expert-share", ("1.5",)),
        ("--smoothness", ("-1", "nan")),
        ("--entropy", ("inf",)),
        ("--batch", ("0",)),
        ("--steps", ("0",)),
        ("--loops", ("0",)),
        ("--rounds", ("0",)),
        ("--pictures", ("0",)),
        ("--population", ("0",)),
        ("--tuned-seconds", ("0",)),
        ("--threads", ("0", "1000000")),
        ("--seed", ("-1", "4294967296")),
        ("--generated", ("-1",)),
        ("--fold", ("0", "1.5")),
        ("--judged", ("-1",)),
        ("--device", ("xyz", "cuda:", "")),
    ],
)
def test_number_out_of_range_is_refused_with_its_range(
    algorithm: str, argument: str, wrong: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if argument.removeprefix("--").replace("-", "_") not in vars(parser(algorithm).parse_args(["--output", "nowhere"])):
        return
    for text in wrong:
        error = refused(algorithm, tmp_path / "run", argument, text, capsys=capsys)
        assert error.startswith(f"{argument}: {text!r} is "), error
        assert "at least" in error or "more than" in error or "cpu" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("level", ["0", "0.05", "0.8", "nan"])
def test_target_without_forecast_is_refused_before_training(
    level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused("lockstep", tmp_path, "--target-level", level, capsys=capsys).startswith("--target-level: ")
    assert not list(tmp_path.iterdir())


def test_abbreviated_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bob", "--output", "nowhere", "--trace", "0.95"])
    assert "unrecognized arguments: --trace" in capsys.readouterr().err


def test_help_works_without_pytorch_and_training_names_it(tmp_path: Path) -> None:
    def python(lines: str) -> subprocess.CompletedProcess[str]:
        without = "import sys; sys.modules.update(torch=None, gymnasium=None)\n"
        given = "from lockstep.learn.__main__ import export, main\n"
        return subprocess.run(  # noqa: S603
            [sys.executable, "-c", without + given + lines], capture_output=True, text=True, check=False
        )

    for algorithm in ALGORITHMS:
        listed = python(f"main([{algorithm!r}, '--help'])")
        assert listed.returncode == 0, listed.stderr
        assert f"usage: lockstep train {algorithm}" in listed.stdout
        assert "--call-seconds" in listed.stdout or "--pictures" in listed.stdout
    (tmp_path / "setting.json").write_text('{"algorithm": "bob"}')
    for lines in (f"main(['bob', '--output', {str(tmp_path)!r}])", f"export([{str(tmp_path)!r}])"):
        missed = python(f"sys.exit({lines})")
        assert missed.returncode == 1
        assert f"install it with: {install_command('learn')}" in missed.stderr
        assert missed.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--foo"], ["run", "--foo"], ["run", "other"], []])
def test_export_accepts_only_a_folder(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        export(words)
    assert ended.value.code == 2
    assert "usage: lockstep export [-h] DIR" in capsys.readouterr().err


@pytest.mark.parametrize("library", ["numpy", "polars"])
@pytest.mark.parametrize("command", ["learn", "studies"])
def test_missing_library_is_reported_in_one_line(command: str, library: str, tmp_path: Path) -> None:
    what = "bob"
    lines = (
        f"import sys; sys.modules.update({library}=None)\nfrom lockstep.{command}.__main__ import main\n"
        f"sys.exit(main([{what!r}, '--output', {str(tmp_path)!r}]))"
    )
    missed = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)  # noqa: S603
    assert missed.returncode == 1
    assert missed.stderr.count("\n") == 1
    assert f"is missing; install it with: {sys.executable} -m pip install '" in missed.stderr
