"""Trainings that take seconds, for tests."""

from pathlib import Path

from lockstep.learn.__main__ import main

TINY_PPO = [
    *("--generated", "4", "--updates", "2", "--round", "1", "--windows", "64", "--calls", "4", "--call-seconds", "4"),
    *("--epochs", "2", "--minibatches", "2", "--clone", "20", "--critic-first", "0"),
]
TINY = {
    "bob": TINY_PPO,
    "gemini": TINY_PPO,
    "hrcc": TINY_PPO,
    "concerto": ["--generated", "4", "--loops", "2", "--epochs", "1", "--call-seconds", "2"],
    "lockstep": [
        *("--generated", "8", "--fitted", "5", "--rounds", "2", "--epochs", "1", "--calls", "8", "--pictures", "60"),
        *("--generations", "1", "--population", "2", "--tuned", "1", "--tuned-calls", "2", "--tuned-seconds", "2"),
    ],
    "rlv": [
        *("--generated", "4", "--updates", "4", "--critic-first", "1", "--steps", "4", "--call-seconds", "2"),
        *("--clone-loops", "1", "--clone-epochs", "1"),
    ],
}


def train(algorithm: str, folder: Path, *words: str) -> int:
    return main(
        [algorithm, "--output", str(folder), "--quiet", "--threads", "1", "--judged", "1", *TINY[algorithm], *words]
    )
