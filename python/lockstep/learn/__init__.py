"""Learned controllers: one file for each algorithm.

``lockstep train concerto --seed 1 --output DIR`` trains a model for ``--controller concerto --model``. ``lockstep
export DIR`` writes the model again. Both require PyTorch, from the extra ``learn``. The Rust code of calls computes the
observations (:mod:`lockstep.gym`). Trainings, data and results: ``lab: 2026-11-learning``.

A new algorithm consists of:

- a file here with a ``main(arguments)``,
- a line in :data:`ALGORITHMS`,
- its arguments in ``arguments.py``,
- its other half in Rust (``crates/control/src/learned``).
"""

from typing import Final

ALGORITHMS: Final[dict[str, str]] = {
    "bob": "BoB: an estimator at the receiver with a heuristic and a selector, by PPO (IEEE TMM 2022)",
    "concerto": "Concerto: imitates an expert that knows the trace (MobiCom 2019)",
    "gemini": "Gemini: an estimator at the receiver with GCC and a safety detector, by PPO (MMSys 2021)",
    "hrcc": "HRCC: a heuristic at the receiver that PPO tunes (MMSys 2021)",
    "lockstep": "Lockstep's own: quantiles of the bytes that the path can deliver until a deadline",
    "rlv": "RL-V: Concerto's choice learned from a reward, by A2C",
}
"""Names and descriptions of the algorithms; each is a module of this package with a ``main``."""
