"""What trainings are told: the arguments of each algorithm, and the setting that a run keeps of them.

This takes neither PyTorch nor gymnasium, so that ``--help``, and what is wrong with a number, need neither.

Defaults are those that the shipped model of the algorithm was trained with, as its card says (``models/*.json``), but
for what belongs to a training of one's own: seed, data, and rules that were found already. ``docs/learning.md`` says
what chose them.
"""

import argparse
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockstep import _lockstep
from lockstep.argument_types import real, whole
from lockstep.learn import ALGORITHMS
from lockstep.threads import MOST_THREADS

SETTING = "setting.json"
"""The file of a run's folder with what it was told."""
MOST_SEED = 2**32 - 1
"""NumPy's old generator takes no larger one."""
MOST_TRAININGS = 10_000
"""Of a search: each is a folder, and more are a slip."""
LADDERS = ("logarithmic", "paper")
"""Concerto's ladders of rates by name."""
INPUTS = ("both", "transport")
"""Which layers' signals Concerto sees, by name."""


# --- Numbers --------------------------------------------------------------------------------------------------------


def device(text: str) -> str:
    """The type of an argument that names a device; whether there is one, PyTorch knows (:mod:`devices`)."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no device: auto, cpu, cuda, or cuda:1 for the second of some")
    return text


def seeds(text: str) -> list[int]:
    """The type of an argument that is seeds as `lockstep sweep` has them: `1-5`, or `1,4,7`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            ends = int(first), int(last if dash else first)
        except ValueError:
            ends = 1, 0
        if not 0 <= ends[0] <= ends[1] <= MOST_SEED:
            raise argparse.ArgumentTypeError(f"{text!r} is not like 1-5 or 1,4,7, at least 0 and at most {MOST_SEED}")
        if len(found) + ends[1] - ends[0] >= MOST_TRAININGS:
            raise argparse.ArgumentTypeError(f"{text!r} is more than at most {MOST_TRAININGS} seeds")
        found |= set(range(ends[0], ends[1] + 1))
    return sorted(found)


def alternatives(text: str) -> tuple[str, list[str]]:
    """The type of an argument that is a name and values, `NAME=VALUE,VALUE`, each of them once."""
    name, equals, values = text.partition("=")
    if not (name and equals and all(values.split(","))):
        raise argparse.ArgumentTypeError(f"{text!r} is not like learning-rate=1e-3,3e-4")
    return name.removeprefix("--").replace("_", "-"), list(dict.fromkeys(values.split(",")))


def cluster(text: str) -> str:
    """The type of an argument that is the address of a Ray cluster."""
    if not text.removeprefix("ray://") or not text.startswith("ray://"):
        raise argparse.ArgumentTypeError(f"{text!r} is no cluster: it is like ray://HOST:PORT, or ray://local")
    return text


SHARE = real(0.0, 1.0)
RATE = real(0.0, 1.0, open_ends="least")
"""Of learning: nothing is learned at 0, and nothing of use above 1."""
SECONDS = real(1.0, 3_600.0)
"""Of a call: shorter ones would have too few decisions."""


# --- What an algorithm is told --------------------------------------------------------------------------------------


def parser(algorithm: str) -> argparse.ArgumentParser:
    """The arguments of an algorithm."""
    # Without abbreviations: `--trace` would be taken for `--traces`.
    made = argparse.ArgumentParser(
        prog=f"lockstep train {algorithm}", description=ALGORITHMS[algorithm], allow_abbrev=False
    )
    _of_every_algorithm(made)
    _OWN[algorithm](made)
    made.add_argument("--stop-after", type=whole(1), default=None, help=argparse.SUPPRESS)
    return made


def _of_every_algorithm(made: argparse.ArgumentParser) -> None:
    made.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the run; it goes on there")
    made.add_argument("--seed", type=whole(0, MOST_SEED), default=1, help="seed of everything random (%(default)s)")
    made.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="train on four fifths of the traces in this folder, by seed, beside the generated ones; other four fifths "
        "than those of `lockstep data split` with the same seed",
    )
    made.add_argument(
        "--split",
        action="append",
        default=[],
        metavar="FILE",
        help="train on the training part of a manifest of `lockstep data split`, and be judged by the rest; may be "
        "given more than once",
    )
    made.add_argument(
        "--fold",
        type=whole(1),
        metavar="K",
        help="of a manifest's six parts the first K to train on and the next to be judged by, its fold K",
    )
    made.add_argument("--generated", type=whole(0), default=200, metavar="COUNT", help="generated traces (%(default)s)")
    made.add_argument("--family", help="generated traces of this fitted family, such as umts, not of every kind")
    made.add_argument(
        "--threads", type=whole(1, MOST_THREADS), default=2, help="threads of PyTorch and of the calls (%(default)s)"
    )
    made.add_argument(
        "--device",
        type=device,
        default="auto",
        help="where the net is trained: cpu, cuda, cuda:1, or auto, a GPU where there is one (%(default)s)",
    )
    made.add_argument(
        "--judged",
        type=whole(0),
        default=16,
        metavar="COUNT",
        help="traces of each kind that the model is judged by (%(default)s)",
    )
    made.add_argument("--export", action="store_true", help="only write the model of the last checkpoint")
    made.add_argument("--quiet", action="store_true", help="no progress")
    of_a_search(made.add_argument_group("a search", "A training for each of several seeds and settings."))


def of_a_search(made: Any) -> None:
    """What only a search is told, and none of its trainings; `made` is a parser or a group of one."""
    made.add_argument("--seeds", type=seeds, metavar="LIST", help="a training for each seed: 1-5, or 1,4,7")
    made.add_argument(
        "--search",
        type=alternatives,
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="and for each value of an argument, as in learning-rate=1e-3,3e-4; for each with each if given more than "
        "once",
    )
    made.add_argument("--workers", type=whole(1, MOST_THREADS), help="trainings at once on this machine (1)")
    made.add_argument(
        "--on",
        type=cluster,
        metavar="ADDRESS",
        help="train on a Ray cluster: ray://HOST:PORT, or ray://local for one on this machine; its machines need this "
        "package, with PyTorch, and the same traces under the same paths",
    )


def _ppo(made: argparse.ArgumentParser, *, updates: int, clip: float, epochs: int) -> None:
    """What PPO is told; defaults are what the shipped models of HRCC and Gemini share, with their papers' 3e-5."""
    made.add_argument("--updates", type=whole(1), default=updates, help="updates of PPO (%(default)s)")
    made.add_argument("--windows", type=whole(1), default=4_000, help="decisions of an update (%(default)s)")
    made.add_argument("--calls", type=whole(2), default=40, help="calls at a time, half a codec (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=30.0, help="length of a call (%(default)s)")
    made.add_argument("--discount", type=SHARE, default=0.99, help="gamma, from decision to decision (%(default)s)")
    made.add_argument("--gae-lambda", type=SHARE, default=0.95, help="generalised advantages' lambda (%(default)s)")
    made.add_argument("--epochs", type=whole(1), default=epochs, help="passes over the samples (%(default)s)")
    made.add_argument("--minibatches", type=whole(1), default=4, help="parts of the samples (%(default)s)")
    made.add_argument("--learning-rate", type=RATE, default=3e-5, help="Adam's (%(default)s)")
    made.add_argument(
        "--last-rate", type=SHARE, default=1.0, help="share of the learning rate that is left at the end (%(default)s)"
    )
    made.add_argument("--clip", type=real(0.0, 1.0, open_ends="least"), default=clip, help="PPO's clip (%(default)s)")
    made.add_argument("--clone", type=whole(0), default=1_500, help="steps of cloning before (%(default)s)")
    made.add_argument("--critic-first", type=whole(0), default=3, help="updates of the critic alone (%(default)s)")
    made.add_argument(
        "--divergence",
        type=real(0.0, math.inf),
        default=math.inf,
        help="Kullback-Leibler divergence of an update beyond which only the critic goes on learning (%(default)s)",
    )
    made.add_argument(
        "--critic",
        choices=("seen", "told"),
        default="seen",
        help="what the critic goes by: what the actor sees, or what only the simulator knows as well (%(default)s)",
    )
    made.add_argument("--round", type=whole(1), default=10, help="updates between checkpoints (%(default)s)")


def _bob(made: argparse.ArgumentParser) -> None:
    _ppo(made, updates=150, clip=0.2, epochs=4)
    # The shipped model's, of `lockstep train bob --seed 1 --threads 1 --traces ../shared/traces/norway-3g`;
    # docs/learning.md ("BoB, HRCC and Gemini: at the receiver") says what they brought, and what the paper has.
    made.set_defaults(
        windows=12_000,
        calls=120,
        minibatches=6,
        learning_rate=1e-4,
        last_rate=0.1,
        clone=4_000,
        critic_first=10,
        divergence=0.03,
        critic="told",
        round=5,
    )
    made.add_argument("--history", choices=("conv", "lstm"), default="conv", help="over the estimates (%(default)s)")
    made.add_argument(
        "--dropout",
        type=real(0.0, 1.0, open_ends="most"),
        default=0.0,
        help="share of the dense layers dropped (%(default)s)",
    )
    made.add_argument(
        "--begin",
        choices=("heuristic", "rule"),
        default="rule",
        help="what the net is a clone of at first: the heuristic, or a rule that climbs faster (%(default)s)",
    )
    # Further than twice their mean two numbers are never apart.
    made.add_argument(
        "--threshold",
        type=real(0.0, 2.0, open_ends="least"),
        default=0.3,
        help="of the selector, a share (%(default)s)",
    )


def _gemini(made: argparse.ArgumentParser) -> None:
    # Updates are the shipped model's (docs/learning.md, "BoB, HRCC and Gemini: at the receiver").
    _ppo(made, updates=160, clip=0.2, epochs=20)


def _hrcc(made: argparse.ArgumentParser) -> None:
    # Updates are the shipped model's, as for Gemini; clip and epochs the paper's.
    _ppo(made, updates=200, clip=0.1, epochs=37)


def _decisions_on_a_ladder(made: argparse.ArgumentParser) -> None:
    # Models are exported with what is seen in calls of four seconds.
    made.add_argument(
        "--interval-ms", type=whole(10, 2_000), default=200, help="time between two decisions (%(default)s)"
    )
    made.add_argument("--ladder", choices=LADDERS, default="logarithmic", help="the rates (%(default)s)")


def _concerto(made: argparse.ArgumentParser) -> None:
    _decisions_on_a_ladder(made)
    made.add_argument(
        "--expert",
        choices=("climbs", "drains", "capacity"),
        default="climbs",
        help="what the expert heeds (%(default)s)",
    )
    made.add_argument("--loss", choices=("cross-entropy", "weighted", "overshoot"), default="overshoot")
    made.add_argument("--inputs", choices=INPUTS, default="both", help="which layers' signals are seen (%(default)s)")
    made.add_argument("--overshoot", type=real(0.0), default=8.0, help="the loss's C (%(default)s)")
    made.add_argument("--smoothness", type=real(0.0), default=0.5, help="the smoothness term's lambda (%(default)s)")
    made.add_argument("--loops", type=whole(1), default=4, help="loops of imitation, L (%(default)s)")
    made.add_argument("--expert-share", type=SHARE, default=0.5, help="SMILe's beta (%(default)s)")
    made.add_argument("--epochs", type=whole(1), default=5, help="epochs of a loop (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="decisions in a batch (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=20.0, help="length of a call in a loop (%(default)s)")


def _rlv(made: argparse.ArgumentParser) -> None:
    _decisions_on_a_ladder(made)
    made.add_argument("--clone-loops", type=whole(0), default=3, help="loops of cloning a rule of thumb (%(default)s)")
    made.add_argument("--clone-epochs", type=whole(0), default=2, help="epochs of such a loop (%(default)s)")
    # The shipped model's (docs/learning.md, "What is shipped").
    made.add_argument("--updates", type=whole(1), default=100, help="gradients (%(default)s)")
    made.add_argument("--critic-first", type=whole(0), default=20, help="of them the critic's alone (%(default)s)")
    made.add_argument("--steps", type=whole(1), default=20, help="steps of a rollout (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=20.0, help="length of a call (%(default)s)")
    made.add_argument("--discount", type=SHARE, default=0.97, help="of what follows a step (%(default)s)")
    made.add_argument("--gae-lambda", type=SHARE, default=0.95, help="generalised advantages' lambda (%(default)s)")
    made.add_argument("--learning-rate", type=RATE, default=2e-4, help="Adam's, falling to nothing (%(default)s)")
    made.add_argument("--entropy", type=real(0.0), default=0.003, help="weight of the entropy (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="decisions in a batch of cloning (%(default)s)")


def _lockstep_own(made: argparse.ArgumentParser) -> None:
    levels = _lockstep.lesson_names()[2]
    # How many traces, rounds and calls, and the rate, are the shipped model's (docs/learning.md, "Lockstep's own").
    made.add_argument(
        "--fitted", type=whole(0), default=200, metavar="COUNT", help="traces like recordings (%(default)s)"
    )
    made.add_argument("--varied", type=whole(0), default=400, metavar="COUNT", help="traces unlike any (%(default)s)")
    made.add_argument(
        "--rounds", type=whole(1), default=7, help="rounds of calls: Sprout's, then one's own (%(default)s)"
    )
    made.add_argument("--calls", type=whole(1), default=1_280, help="calls in a round (%(default)s)")
    # A model is exported with what is seen after a second.
    made.add_argument("--pictures", type=whole(31), default=600, help="pictures in a call (%(default)s)")
    made.add_argument("--epochs", type=whole(1), default=3, help="passes over all lessons in a round (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="calls learned from at once (%(default)s)")
    made.add_argument("--chunk", type=whole(1), default=100, help="pictures learned from at once (%(default)s)")
    made.add_argument("--learning-rate", type=RATE, default=1.5e-3, help="Adam's, falling to none (%(default)s)")
    made.add_argument(
        "--begin",
        metavar="FILE",
        help="go on from the weights of this ONNX model, which may have been trained with fewer observations",
    )
    made.add_argument("--generations", type=whole(0), default=8, help="of the search for a rule (%(default)s)")
    made.add_argument("--population", type=whole(1), default=16, help="rules in a generation (%(default)s)")
    made.add_argument("--tuned", type=whole(1), default=24, help="traces of each kind for the search (%(default)s)")
    # Half as many choose the target.
    made.add_argument("--tuned-calls", type=whole(2), default=81, help="calls that a rule is tried in (%(default)s)")
    made.add_argument("--tuned-seconds", type=SECONDS, default=40.0, help="their length (%(default)s)")
    made.add_argument(
        "--tuned-clip",
        action="append",
        default=[],
        metavar="CLIP",
        help="search by calls with pixels of this clip, not by modelled ones; may be given more than once",
    )
    made.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="LATENCY=NUMBERS",
        help="in the place of what the search finds for a latency, as in a model's card; may be given more than once",
    )
    made.add_argument(
        "--target-level",
        type=real(levels[0], levels[-1]),
        help="the quantile of codecs that follow a rate, not what is searched for",
    )


_OWN: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "bob": _bob,
    "concerto": _concerto,
    "gemini": _gemini,
    "hrcc": _hrcc,
    "lockstep": _lockstep_own,
    "rlv": _rlv,
}


# --- The setting of a run -------------------------------------------------------------------------------------------


HOW = (
    *("output", "judged", "export", "quiet", "threads", "device", "stop_after"),
    *("seeds", "search", "workers", "on"),
)
"""Arguments that only say how it is trained, not what comes of it."""


def setting_of(algorithm: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Of what a training is told what bears on what comes of it, as the folder of the run keeps it."""
    said = {name: value for name, value in vars(arguments).items() if name not in HOW}
    setting: dict[str, Any] = json.loads(json.dumps({"algorithm": algorithm, **said}, default=str))
    return setting


def known_setting(folder: Path, algorithm: str) -> dict[str, Any]:
    """What the run in ``folder`` was told, and of what there was no argument for when it began what is the default.

    Raises:
        ValueError: If there is no run, or the file says nothing of the kind.

    """
    usual = parser(algorithm).parse_args(["--output", str(folder)])
    return setting_of(algorithm, usual) | read_setting(folder)


def check_setting(folder: Path, known: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuses to go on in ``folder``, whose run has the setting ``known``, with another.

    Raises:
        ValueError: If they differ; it says in what.

    """
    differ = sorted(name for name in {*known, *wanted} if known.get(name) != wanted.get(name))
    if differ:
        raise ValueError(f"{folder} has a run with other settings ({', '.join(differ)}); name another folder")


def read_setting(folder: Path) -> dict[str, Any]:
    """What the run in ``folder`` was told.

    Raises:
        ValueError: If there is no run, or the file says nothing of the kind.

    """
    path = folder / SETTING
    if not path.exists():
        raise ValueError(f"{folder} has no training run: there is no {SETTING}")
    try:
        setting = json.loads(path.read_bytes())
        if not isinstance(setting, dict) or setting.get("algorithm") not in ALGORITHMS:
            raise ValueError("it names no algorithm")
    except ValueError as error:
        raise ValueError(f"{path} is no setting of a run ({error}): put it back, or name another folder") from error
    return setting
