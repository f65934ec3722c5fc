"""Arguments of trainings: those of each algorithm, and the setting that a run keeps.

This module imports neither PyTorch nor gymnasium, so ``--help`` and argument errors work without them.

The defaults are the settings of the shipped model, as in its card (``models/*.json``). Exceptions are the user's
choices: seed, data, and rules that are already found. Reasons: ``lab: 2026-11-learning``.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lockstep import _lockstep
from lockstep.argument_types import real, whole
from lockstep.learn import ALGORITHMS
from lockstep.threads import MAX_THREADS

SETTING = "setting.json"
"""File in a run's folder with its setting."""
MAX_SEED = 2**32 - 1
"""Largest seed of NumPy's legacy generator."""
MAX_TRAININGS = 10_000
"""Largest number of trainings in a search; each is a folder, and more are probably a typing error."""
LADDERS = ("logarithmic", "paper")
"""Names of Concerto's rate ladders."""
INPUTS = ("both", "transport")
"""Names of the sets of signals in Concerto's observation."""
NETWORKS = ("2d", "1d", "dense")
"""Names of Concerto's network and of the two that its paper rejected."""


# --- Numbers --------------------------------------------------------------------------------------------------------


def device(text: str) -> str:
    """The type of an argument that names a device; :mod:`devices` checks that PyTorch has it."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a device; expected auto, cpu, cuda, or cuda:1 for the second GPU"
        )
    return text


def seeds(text: str) -> list[int]:
    """The type of an argument that is a list of seeds as in `lockstep sweep`: `1-5`, or `1,4,7`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            ends = int(first), int(last if dash else first)
        except ValueError:
            ends = 1, 0
        if not 0 <= ends[0] <= ends[1] <= MAX_SEED:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of seeds from 0 to {MAX_SEED}, such as 1-5 or 1,4,7"
            )
        if len(found) + ends[1] - ends[0] >= MAX_TRAININGS:
            raise argparse.ArgumentTypeError(f"{text!r} has more than {MAX_TRAININGS} seeds")
        found |= set(range(ends[0], ends[1] + 1))
    return sorted(found)


def alternatives(text: str) -> tuple[str, list[str]]:
    """The type of an argument that is a name with values, `NAME=VALUE,VALUE`; repeated values count once."""
    name, equals, values = text.partition("=")
    if not (name and equals and all(values.split(","))):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name with values, such as learning-rate=1e-3,3e-4")
    return name.removeprefix("--").replace("_", "-"), list(dict.fromkeys(values.split(",")))


def cluster(text: str) -> str:
    """The type of an argument that is the address of a Ray cluster."""
    if not text.removeprefix("ray://") or not text.startswith("ray://"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a cluster; expected ray://HOST:PORT or ray://local")
    return text


SHARE = real(0.0, 1.0)
RATE = real(0.0, 1.0, open_ends="least")
"""Learning rate, above 0 and at most 1."""
SECONDS = real(1.0, 3_600.0)
"""Length of a call; shorter ones would have too few decisions."""


# --- Arguments of algorithms ----------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """A parser whose ``--as-published`` changes the defaults of other arguments."""

    published: Mapping[str, Any] = {}
    """The paper's settings. Given arguments override them."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the base class, with the paper's settings as defaults if asked for."""
        given = sys.argv[1:] if args is None else list(args)
        if "--as-published" in given:
            self.set_defaults(**self.published)
        return super().parse_known_args(given, namespace)


def parser(algorithm: str) -> Parser:
    """The arguments of an algorithm."""
    # Without `allow_abbrev=False`, `--trace` would mean `--traces`.
    made = Parser(prog=f"lockstep train {algorithm}", description=ALGORITHMS[algorithm], allow_abbrev=False)
    _of_every_algorithm(made)
    _OWN[algorithm](made)
    made.add_argument("--stop-after", type=whole(1), default=None, help=argparse.SUPPRESS)
    return made


def _of_every_algorithm(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="folder of the run; a run in it resumes"
    )
    made.add_argument("--seed", type=whole(0, MAX_SEED), default=1, help="seed of all random numbers (%(default)s)")
    made.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="also train on four fifths of the traces in this folder, chosen by seed; these differ from the four "
        "fifths of `lockstep data split` with the same seed",
    )
    made.add_argument(
        "--split",
        action="append",
        default=[],
        metavar="FILE",
        help="train on the training part of a manifest of `lockstep data split` and judge by the rest; may be repeated",
    )
    made.add_argument(
        "--fold",
        type=whole(1),
        metavar="K",
        help="fold K of a manifest with six parts: train on the first K and judge by the next one",
    )
    made.add_argument(
        "--generated", type=whole(0), default=200, metavar="COUNT", help="number of generated traces (%(default)s)"
    )
    made.add_argument("--family", help="generate traces of this fitted family only, such as umts")
    made.add_argument(
        "--threads", type=whole(1, MAX_THREADS), default=2, help="threads of PyTorch and of the calls (%(default)s)"
    )
    made.add_argument(
        "--device",
        type=device,
        default="auto",
        help="device for training: cpu, cuda, cuda:1, or auto for a GPU if there is one (%(default)s)",
    )
    made.add_argument(
        "--judged",
        type=whole(0),
        default=16,
        metavar="COUNT",
        help="number of traces of each kind to judge the model by (%(default)s)",
    )
    made.add_argument("--export", action="store_true", help="write the model of the last checkpoint and do not train")
    made.add_argument("--quiet", action="store_true", help="show no progress")
    of_a_search(made.add_argument_group("a search", "Several trainings, one for each seed and setting."))


def _as_published(made: Parser, **published: Any) -> None:
    """Adds ``--as-published`` with the settings of the paper."""
    made.published = published
    settings = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in published.items())
    made.add_argument(
        "--as-published",
        action="store_true",
        help=f"net, decisions and settings as the paper prints them; defaults change to: {settings}",
    )


def of_a_search(made: Any) -> None:
    """Arguments of a search that its trainings do not have; `made` is a parser or a group of one."""
    made.add_argument("--seeds", type=seeds, metavar="LIST", help="train once for each seed: 1-5, or 1,4,7")
    made.add_argument(
        "--search",
        type=alternatives,
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="train once for each value of an argument, such as learning-rate=1e-3,3e-4; if repeated, once for each "
        "combination",
    )
    made.add_argument("--workers", type=whole(1, MAX_THREADS), help="parallel trainings on this machine (1)")
    made.add_argument(
        "--on",
        type=cluster,
        metavar="ADDRESS",
        help="train on a Ray cluster: ray://HOST:PORT, or ray://local for one on this machine; its machines require "
        "this package with PyTorch, and the same traces under the same paths",
    )


def _cross_traffic(made: argparse.ArgumentParser) -> None:
    """Arguments for calls that share their link."""
    made.add_argument(
        "--shared", type=SHARE, default=0.0, help="share of the calls with cross traffic for a time (%(default)s)"
    )
    made.add_argument(
        "--cross-traffic",
        nargs="+",
        default=["tcp", "gcc"],
        metavar="KIND",
        help="kinds of cross traffic: tcp, or the controller of another call (tcp gcc)",
    )


def _ppo(made: argparse.ArgumentParser, *, updates: int, clip: float, epochs: int) -> None:
    """Arguments of PPO; the defaults are those of the shipped models of HRCC and Gemini, with the papers' 3e-5."""
    made.add_argument("--updates", type=whole(1), default=updates, help="updates of PPO (%(default)s)")
    made.add_argument("--windows", type=whole(1), default=4_000, help="decisions in an update (%(default)s)")
    made.add_argument("--calls", type=whole(2), default=40, help="parallel calls, half with each codec (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=30.0, help="length of a call, seconds (%(default)s)")
    made.add_argument("--discount", type=SHARE, default=0.99, help="discount factor gamma per decision (%(default)s)")
    made.add_argument(
        "--gae-lambda", type=SHARE, default=0.95, help="lambda of generalised advantage estimation (%(default)s)"
    )
    made.add_argument("--epochs", type=whole(1), default=epochs, help="passes over the samples (%(default)s)")
    made.add_argument("--minibatches", type=whole(1), default=4, help="minibatches in a pass (%(default)s)")
    made.add_argument("--learning-rate", type=RATE, default=3e-5, help="learning rate of Adam (%(default)s)")
    made.add_argument(
        "--last-rate", type=SHARE, default=1.0, help="final learning rate as a share of the first (%(default)s)"
    )
    made.add_argument(
        "--clip", type=real(0.0, 1.0, open_ends="least"), default=clip, help="clip range of PPO (%(default)s)"
    )
    made.add_argument(
        "--clone", type=whole(0), default=1_500, help="steps of behaviour cloning before PPO (%(default)s)"
    )
    made.add_argument(
        "--critic-first", type=whole(0), default=3, help="first updates that train the critic only (%(default)s)"
    )
    made.add_argument(
        "--divergence",
        type=real(0.0, math.inf),
        default=math.inf,
        help="Kullback-Leibler divergence in an update above which only the critic continues to learn (%(default)s)",
    )
    made.add_argument(
        "--critic",
        choices=("seen", "told"),
        default="seen",
        help="input of the critic: the observation, or also values that only the simulator knows (%(default)s)",
    )
    made.add_argument("--round", type=whole(1), default=10, help="updates between checkpoints (%(default)s)")
    _cross_traffic(made)


def _bob(made: Parser) -> None:
    _ppo(made, updates=150, clip=0.2, epochs=4)
    # The settings of the shipped model: `lockstep train bob --seed 1 --threads 1 --traces ../shared/traces/norway-3g`.
    # Their effects and the paper's settings: lab: 2026-11-learning ("BoB, HRCC and Gemini: at the receiver").
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
    made.add_argument(
        "--history", choices=("conv", "lstm"), default="conv", help="layer over the estimates (%(default)s)"
    )
    made.add_argument(
        "--dropout",
        type=real(0.0, 1.0, open_ends="most"),
        default=0.0,
        help="dropout rate of the dense layers (%(default)s)",
    )
    made.add_argument(
        "--begin",
        choices=("heuristic", "rule"),
        default="rule",
        help="policy that the net clones at first: the heuristic, or a rule that climbs faster (%(default)s)",
    )
    made.add_argument(
        "--episodes",
        type=whole(1),
        default=None,
        help="calls to learn from, instead of --updates; an update follows --windows decisions",
    )
    # Section III. The paper prints no minibatches and no lambda: all samples, and plain discounted returns.
    _as_published(
        made,
        episodes=2_000,
        call_seconds=60.0,
        windows=4_000,
        calls=40,
        epochs=20,
        minibatches=1,
        learning_rate=3e-5,
        last_rate=1.0,
        gae_lambda=1.0,
        dropout=0.5,
        clone=0,
        critic_first=0,
        divergence=math.inf,
        critic="seen",
    )
    # Two positive numbers are never further apart than twice their mean.
    made.add_argument(
        "--threshold",
        type=real(0.0, 2.0, open_ends="least"),
        default=0.3,
        help="threshold of the selector, a share (%(default)s)",
    )


def _gemini(made: argparse.ArgumentParser) -> None:
    # `updates` is the setting of the shipped model (lab: 2026-11-learning, "BoB, HRCC and Gemini: at the receiver").
    _ppo(made, updates=160, clip=0.2, epochs=20)


def _hrcc(made: argparse.ArgumentParser) -> None:
    # `updates` is the setting of the shipped model, as for Gemini; clip and epochs are the paper's.
    _ppo(made, updates=200, clip=0.1, epochs=37)


def _decisions_on_a_ladder(made: argparse.ArgumentParser) -> None:
    # The exported model has reference inputs of calls of four seconds, so the interval must be shorter.
    made.add_argument(
        "--interval-ms", type=whole(10, 2_000), default=200, help="time between two decisions (%(default)s)"
    )
    made.add_argument("--ladder", choices=LADDERS, default="logarithmic", help="ladder of rates (%(default)s)")
    _cross_traffic(made)


def _concerto(made: Parser) -> None:
    _decisions_on_a_ladder(made)
    made.add_argument(
        "--expert",
        choices=("climbs", "drains", "capacity"),
        default="climbs",
        help="kind of expert (%(default)s)",
    )
    made.add_argument("--loss", choices=("cross-entropy", "weighted", "overshoot"), default="overshoot")
    made.add_argument(
        "--network",
        choices=NETWORKS,
        default="2d",
        help="layers: 2-D convolutions, or those that the paper rejected: 1-D convolutions, dense layers (%(default)s)",
    )
    made.add_argument("--inputs", choices=INPUTS, default="both", help="signals in the observation (%(default)s)")
    made.add_argument("--overshoot", type=real(0.0), default=8.0, help="C of the loss (%(default)s)")
    made.add_argument("--smoothness", type=real(0.0), default=0.5, help="lambda of the smoothness term (%(default)s)")
    made.add_argument("--loops", type=whole(1), default=4, help="number of imitation loops, L (%(default)s)")
    made.add_argument("--expert-share", type=SHARE, default=0.5, help="beta of SMILe (%(default)s)")
    made.add_argument("--epochs", type=whole(1), default=5, help="epochs in a loop (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="decisions in a batch (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=20.0, help="length of a call, seconds (%(default)s)")
    # Sections 3.2 to 5.1; the other defaults are the paper's already. Its 20 epochs are those of all loops together.
    # Calls of 20 s have 20 decisions at its interval, so longer ones give as many samples as here.
    _as_published(made, interval_ms=1_000, ladder="paper", expert="drains", call_seconds=100.0)


def _rlv(made: Parser) -> None:
    _decisions_on_a_ladder(made)
    made.add_argument("--clone-loops", type=whole(0), default=3, help="loops of cloning a heuristic rule (%(default)s)")
    made.add_argument("--clone-epochs", type=whole(0), default=2, help="epochs in such a loop (%(default)s)")
    # The settings of the shipped model (lab: 2026-11-learning, "Shipped models").
    made.add_argument("--updates", type=whole(1), default=100, help="number of gradient steps (%(default)s)")
    made.add_argument(
        "--critic-first",
        type=whole(0),
        default=20,
        help="first gradient steps that train the critic only (%(default)s)",
    )
    made.add_argument("--steps", type=whole(1), default=20, help="steps in a rollout (%(default)s)")
    made.add_argument("--call-seconds", type=SECONDS, default=20.0, help="length of a call, seconds (%(default)s)")
    made.add_argument("--discount", type=SHARE, default=0.97, help="discount factor per step (%(default)s)")
    made.add_argument(
        "--gae-lambda", type=SHARE, default=0.95, help="lambda of generalised advantage estimation (%(default)s)"
    )
    made.add_argument(
        "--learning-rate", type=RATE, default=2e-4, help="learning rate of Adam, decays to zero (%(default)s)"
    )
    made.add_argument("--entropy", type=real(0.0), default=0.003, help="weight of the entropy (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="decisions in a batch of cloning (%(default)s)")
    # Interval and ladder are Concerto's. Pensieve (SIGCOMM 2017) begins untrained, with this discount and rate.
    published = {"interval_ms": 1_000, "ladder": "paper", "call_seconds": 100.0, "clone_loops": 0, "critic_first": 0}
    _as_published(made, **published, discount=0.99, learning_rate=1e-4)


def _lockstep_own(made: argparse.ArgumentParser) -> None:
    levels = _lockstep.training_layout()[2]
    # Numbers of traces, rounds and calls, and the rate, are those of the shipped model (lab: 2026-11-learning,
    # "Lockstep's own").
    made.add_argument(
        "--fitted",
        type=whole(0),
        default=200,
        metavar="COUNT",
        help="number of traces of fitted families (%(default)s)",
    )
    made.add_argument(
        "--varied", type=whole(0), default=400, metavar="COUNT", help="number of varied synthetic traces (%(default)s)"
    )
    made.add_argument(
        "--rounds",
        type=whole(1),
        default=7,
        help="rounds of calls; Sprout controls the first, the model the others (%(default)s)",
    )
    made.add_argument("--calls", type=whole(1), default=1_280, help="calls in a round (%(default)s)")
    # The exported model has reference inputs after a second, so a call must be longer.
    made.add_argument("--pictures", type=whole(31), default=600, help="pictures in a call (%(default)s)")
    made.add_argument("--epochs", type=whole(1), default=3, help="passes over all samples in a round (%(default)s)")
    made.add_argument("--batch", type=whole(1), default=32, help="calls in a batch (%(default)s)")
    made.add_argument("--chunk", type=whole(1), default=100, help="pictures in a truncated sequence (%(default)s)")
    made.add_argument(
        "--learning-rate", type=RATE, default=1.5e-3, help="learning rate of Adam, decays to zero (%(default)s)"
    )
    made.add_argument(
        "--begin",
        metavar="FILE",
        help="start with the weights of this ONNX model, which may have fewer observations",
    )
    made.add_argument(
        "--generations", type=whole(0), default=8, help="generations of the search for a rule (%(default)s)"
    )
    made.add_argument("--population", type=whole(1), default=16, help="rules in a generation (%(default)s)")
    made.add_argument(
        "--tuned", type=whole(1), default=24, help="number of traces of each kind for the search (%(default)s)"
    )
    # Half this number of calls chooses the target.
    made.add_argument("--tuned-calls", type=whole(2), default=81, help="calls that evaluate a rule (%(default)s)")
    made.add_argument(
        "--tuned-seconds", type=SECONDS, default=40.0, help="length of these calls, seconds (%(default)s)"
    )
    made.add_argument(
        "--tuned-clip",
        action="append",
        default=[],
        metavar="CLIP",
        help="evaluate rules by calls with pixels of this clip instead of modelled calls; may be repeated",
    )
    made.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="LATENCY=NUMBERS",
        help="rule for a latency instead of the search's, in the form of a model's card; may be repeated",
    )
    made.add_argument(
        "--target-level",
        type=real(levels[0], levels[-1]),
        help="quantile for codecs with a target rate, instead of the search's",
    )


_OWN: dict[str, Callable[[Any], None]] = {
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
"""Arguments that do not affect the resulting model."""


def setting_of(algorithm: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments that affect the result, in the form that the run's folder keeps."""
    kept = {name: value for name, value in vars(arguments).items() if name not in HOW}
    setting: dict[str, Any] = json.loads(json.dumps({"algorithm": algorithm, **kept}, default=str))
    return setting


def known_setting(folder: Path, algorithm: str) -> dict[str, Any]:
    """The setting of the run in ``folder``; later arguments that it lacks have their defaults.

    Raises:
        ValueError: If there is no run, or its setting file is invalid.

    """
    usual = parser(algorithm).parse_args(["--output", str(folder)])
    return setting_of(algorithm, usual) | read_setting(folder)


def check_setting(folder: Path, known: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuses to resume a run with the setting ``known`` in ``folder`` with another setting.

    Raises:
        ValueError: If they differ; the message lists the differences.

    """
    differ = sorted(name for name in {*known, *wanted} if known.get(name) != wanted.get(name))
    if differ:
        raise ValueError(f"{folder} has a run with other settings ({', '.join(differ)}); name another folder")


def read_setting(folder: Path) -> dict[str, Any]:
    """The setting of the run in ``folder``.

    Raises:
        ValueError: If there is no run, or its setting file is invalid.

    """
    path = folder / SETTING
    if not path.exists():
        raise ValueError(f"{folder} has no training run: {SETTING} is missing")
    try:
        setting = json.loads(path.read_bytes())
        if not isinstance(setting, dict) or setting.get("algorithm") not in ALGORITHMS:
            raise ValueError("no known algorithm in it")
    except ValueError as error:
        raise ValueError(
            f"cannot read {path} as the setting of a run ({error}); restore it or name another folder"
        ) from error
    return setting
