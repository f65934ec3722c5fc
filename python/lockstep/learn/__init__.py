"""Learned controllers: one file an algorithm, readable from top to bottom.

``lockstep train concerto --seed 1 --output DIR`` trains one and writes the model that ``--controller concerto
--model`` takes; ``lockstep export DIR`` writes it again. They need PyTorch, of the
extra ``learn``. What agents see is made by the same Rust code as in calls (:mod:`lockstep.gym`). ``docs/learning.md``
has what was trained, on what, and what came of it.

To add an algorithm: a file here with a ``main(arguments)``, a line in :data:`ALGORITHMS`, what it is told in
``arguments.py``, and its other half in Rust (``crates/control/src/learned``).
"""

from typing import Final

ALGORITHMS: Final[dict[str, str]] = {
    "bob": "BoB: an estimator at the receiver beside a heuristic, behind a selector, by PPO (IEEE TMM 2022)",
    "concerto": "Concerto: imitates an expert who knows the path (MobiCom 2019)",
    "gemini": "Gemini: an estimator at the receiver beside GCC, with a safety detector, by PPO (MMSys 2021)",
    "hrcc": "HRCC: a heuristic at the receiver that PPO tunes (MMSys 2021)",
    "lockstep": "Lockstep's own: quantiles of the bytes that the path will take until a deadline",
    "rlv": "RL-V: the same choice learned from a reward, by A2C",
}
"""Names and meanings of what can be trained; each is a module of this package with a ``main``."""
