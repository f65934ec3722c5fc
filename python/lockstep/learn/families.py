"""Traces for Lockstep's own controller: generated ones, fitted ones, and the parts of manifests."""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from lockstep.learn.traces import generated_traces, logarithmically
from lockstep.learn.training import Run

FAMILIES = ("lte", "umts", "broadband", "wifi", "wired")
OPPORTUNITIES = 12
"""Weight of a recording of delivery opportunities in training: these recordings are few and long."""
VALIDATION = 5
"""One of this number of training traces in a manifest is a validation trace."""


def fitted_traces(seed: int, count: int) -> list[str]:
    """Texts for ``count`` traces of a minute from fitted families, in turn."""
    draw = np.random.default_rng([seed, 0xF17])
    seeds = draw.integers(1 << 31, size=count)
    return [f"fitted:family={FAMILIES[index % 5]},seed={own},seconds=60" for index, own in enumerate(seeds)]


def varied_traces(seed: int, count: int) -> list[str]:
    """Texts for ``count`` diverse traces of a minute, on links of no fitted family.

    Kinds: a Poisson delivery process; rates that jump at any step, with pauses; rates that swing; steady rates with
    changing delay or loss. Mean rates are spread evenly on a logarithmic scale from 60 kb/s to 12 Mb/s.
    """
    draw = np.random.default_rng([seed, 0x7A21ED])

    between = partial(logarithmically, draw)
    traces = []
    for index in range(count):
        mean, own = round(between(60, 12_000)), int(draw.integers(1 << 31))
        pause = between(0.05, 3.0)
        pauses = f"outage-every={max(1.0, pause * between(4, 60)):.2f}s,outage-length={1000 * pause:.0f}ms"
        if index % 4 == 0:
            words = f"poisson:{min(mean, 8_000)}kbps,seed={own}"
        elif index % 4 == 1:
            step, noise = between(20, 1_000), draw.uniform(0.1, 1.2)
            words = (
                f"cellular:mean={mean}kbps,deviation={draw.uniform(0.0, 0.3):.2f},dwell={between(0.2, 10):.2f}s,"
                f"step={step:.0f}ms,noise={noise:.2f},{pauses},duration=60s,seed={own}"
            )
        elif index % 4 == 2:
            words = (
                f"cellular:mean={mean}kbps,deviation={draw.uniform(0.3, 1.2):.2f},dwell={between(0.1, 10):.2f}s,"
                f"states={draw.integers(3, 13)},step={between(20, 200):.0f}ms,noise={draw.uniform(0.0, 0.3):.2f},"
                f"{pauses},duration=60s,seed={own}"
            )
        elif index % 8 == 3:
            loss, on, off = draw.uniform(0.05, 1.0), between(0.05, 2.0), between(1.0, 20.0)
            words = (
                f"onoff:{mean}kbps,on={1000 * on:.0f}ms,off={1000 * off:.0f}ms,loss={loss:.2f},duration=60s,seed={own}"
            )
        else:
            other, lasts = round(mean * between(0.2, 5.0)), between(0.2, 10.0)
            then, jitter = between(0.2, 10.0), draw.integers(1, 16)
            words = f"steps:{mean}kbps@{lasts:.2f}s/{other}kbps@{then:.2f}s,jitter={jitter}ms"
        traces.append(words)
    return traces


def parts(options: argparse.Namespace, run: Run) -> tuple[list[str], list[str], list[str]]:
    """Disjoint sets of traces for training, validation and test.

    Raises:
        ValueError: If there is nothing to train on, or a folder or manifest is invalid.

    """
    training, test = run.traces(alone=False)
    seed = options.seed
    training += fitted_traces(seed, options.fitted) + varied_traces(seed, options.varied)
    validation = generated_traces(seed + 2_000_003, 10) + fitted_traces(seed + 2_000_003, 10)
    if options.varied:
        validation += varied_traces(seed + 2_000_003, 10)
    test += fitted_traces(seed + 1_000_003, 10)
    for names, judged in run.manifests():
        validation += names[::VALIDATION]
        training += [name for index, name in enumerate(names) if index % VALIDATION]
        test += judged
    if not training:
        none = "--generated 0, --fitted 0 and --varied 0"
        raise ValueError(f"cannot train without traces: {none} without --traces or --split")
    longer = [name for name in training if name.endswith((".up", ".down"))]
    return training + longer * (OPPORTUNITIES - 1), validation, test


def kind(trace: str) -> str:
    """The kind of a trace: its folder, its fitted family, or its generator."""
    if ":" not in trace:
        return Path(trace).parent.name
    return trace.split(",", maxsplit=1)[0] if trace.startswith("fitted:") else trace.split(":", maxsplit=1)[0]
