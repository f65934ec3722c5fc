"""Concerto: a controller at the sender that imitates an expert that knows the trace (MobiCom 2019).

The expert sends at the link's true capacity over the next interval, less the queued bytes. A net learns to make the
same choice from signals of the sender: loss, delay, sending rate and receive throughput. The observation has four
arrays per second, for three seconds (``crates/control/src/learned/concerto.rs`` computes it, here and in calls). The
net chooses one of a ladder of bit rates.

As in the paper:

- Four 3x3 convolutions of 64 filters with LeakyReLU, one per array; a fusion convolution of 128; a dense layer of 256.
- Softmax over 26 rates.
- A cross-entropy weighted by the squared distance from the expert's rate, plus C = 8 if the net's rate is higher.
- A smoothness term of 0.5 over the last 3 decisions.
- Four imitation loops in which the expert acts with a probability that halves (SMILe).
- Adam from 1e-3 decaying by 0.6; batches of 32; 20 epochs in total.

Different from the paper, with the reason:

- The fusion convolution has strides of 3 and 2. With strides of 1, the dense layer has 2 M weights and the file 9 MB.
- pi, in the loss and in decisions, is the mean place on the ladder under the softmax. The paper takes the largest
    score.
  The weights grow with the distance and shift the largest score to the low tail of the distribution. Then the
  controller decays to the lowest rate. The weights shift the mean much less.
- The sending rate interpolates between the rates of the ladder at the mean place. Each rate of the ladder stands for
  the middle between it and the next (:func:`stands_for`). Rounded down to 22 % steps, a fifth of a link of 500 kb/s
  would stay unused.
- The expert increases the rate by at most half at a time (``--expert climbs``). The sender cannot observe capacity
  beyond its sending rate, so no state explains a larger jump. A net with a high cost of overshoot then stays at the
  lowest rate.
- phi(t, k) falls with the change of the expert's choice between the two decisions, so that necessary changes are free.
- SMILe ends with a mixture of all nets. Here one net continues to learn from the samples of all loops.
- The interval between decisions is ``--interval-ms`` (the paper: one second). The ladder is logarithmic from 50 kb/s
  to 8 Mb/s (``--ladder paper``: 0 to 2.5 Mb/s in steps of 0.1).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from lockstep.gym import FEATURES, CallVectorEnv, LadderAction
from lockstep.learn.devices import device_of
from lockstep.learn.training import FEEDBACK_MS, Run, train

SHAPE = (4, 3, 15, 4)
"""Signals, seconds, reports per second, groups of packets per report."""
LADDERS: dict[str, Callable[[], LadderAction]] = {"logarithmic": LadderAction.logarithmic, "paper": LadderAction}
CALLS = 32
"""Number of parallel calls with each codec."""
CLIMB = 2
"""Largest step up of the climbing expert, in places; on the logarithmic ladder two places are half of the rate."""
INITIAL_BPS = 300_000
"""Sending rate before the first decision, bit/s."""
WINDOW = 4
"""Consecutive decisions of one call in a batch: the current one and three for the smoothness term."""
_COLUMN = {name: place for place, name in enumerate(FEATURES)}


INPUTS = {"both": (True, True, True, True), "transport": (True, True, False, False)}
"""Signals in the observation: those of both layers, or the transport's loss and delay only (an ablation)."""


class ConcertoNet(nn.Module):
    """State -> a score for each rate."""

    def __init__(self, rates: int, inputs: str = "both") -> None:
        """An untrained net for a ladder of ``rates``."""
        super().__init__()
        signals, seconds, reports, groups = SHAPE
        # Four groups of filters, one for each array: the four convolutions as one operator.
        self.arrays = nn.Conv2d(signals * seconds, signals * 64, 3, padding=1, groups=signals)
        self.fusion = nn.Conv2d(signals * 64, 128, 3, stride=(3, 2), padding=1)
        self.dense = nn.Linear(128 * ((reports + 2) // 3) * ((groups + 1) // 2), 256)
        self.scores = nn.Linear(256, rates)
        # Hidden signals have zero weights that never learn, so that the model has the same shape with any inputs.
        seen = torch.tensor(INPUTS[inputs], dtype=self.arrays.weight.dtype).repeat_interleave(64)
        with torch.no_grad():
            self.arrays.weight *= seen[:, None, None, None]
        self.arrays.weight.register_hook(lambda gradient: gradient * seen.to(gradient.device)[:, None, None, None])

    def features(self, state: torch.Tensor) -> torch.Tensor:
        """Output of the dense layer: states ``(calls, 4, 3, 15, 4)`` -> ``(calls, 256)``."""
        hidden = functional.leaky_relu(self.arrays(state.flatten(1, 2)))
        hidden = functional.leaky_relu(self.fusion(hidden))
        return functional.leaky_relu(self.dense(hidden.flatten(1)))

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Scores before the softmax, ``(calls, rates)``."""
        scores: torch.Tensor = self.scores(self.features(state))
        return scores


class Probabilities(nn.Module):
    """Exported net: the softmax over the rates."""

    def __init__(self, net: nn.Module) -> None:
        """The softmax of a net of scores."""
        super().__init__()
        self.net = net

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Probabilities, ``(calls, rates)``."""
        return functional.softmax(self.net(state), dim=-1)


def expected_place(scores: torch.Tensor) -> torch.Tensor:
    """The mean place on the ladder under the softmax of the scores."""
    places = torch.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)
    return (functional.softmax(scores, -1) * places).sum(-1)


def imitation_loss(
    scores: torch.Tensor, expert: torch.Tensor, kind: str, overshoot: float, smoothness: float
) -> torch.Tensor:
    """The loss of batches of ``(calls, WINDOW)`` decisions with scores ``(calls, WINDOW, rates)``."""
    expected = expected_place(scores)
    wanted = expert.to(scores.dtype)
    entropy = functional.cross_entropy(scores.flatten(0, 1), expert.flatten(), reduction="none").view_as(expected)
    error = (expected - wanted).detach()
    if kind == "cross-entropy":
        weight = torch.ones_like(error)
    else:
        weight = error.square()
        if kind == "overshoot":
            # More than half a place above the expert's choice rounds to the next rate.
            weight = weight + overshoot * (error > 0.5)
    loss = (weight * entropy).mean()
    for back in range(1, WINDOW):
        moved = (expert[:, back:] - expert[:, :-back]).abs().to(scores.dtype)
        phi = torch.exp(-moved) / (WINDOW - 1)
        loss = loss + smoothness * (phi * (expected[:, back:] - expected[:, :-back]).square()).mean()
    return loss


def expert_choice(
    features: NDArray[np.float64], present: NDArray[np.int64], ladder: NDArray[np.float64], interval: float, kind: str
) -> Any:
    """The highest rate of the ladder that the link can carry over the next interval.

    ``drains`` subtracts the queued bytes. ``climbs`` also limits it to ``CLIMB`` places above ``present``.
    """
    rate = features[:, _COLUMN["next_capacity_bps"]]
    if kind != "capacity":
        rate = rate - features[:, _COLUMN["queued_bytes"]] * 8.0 / interval
    choice = np.maximum(np.searchsorted(ladder, rate, side="right") - 1, 0)
    return np.minimum(choice, present + CLIMB) if kind == "climbs" else choice


@dataclass
class Samples:
    """Decisions of whole calls: states ``(calls, steps, *SHAPE)`` and the expert's choices."""

    states: NDArray[np.float16]
    expert: NDArray[np.int64]


def environments(options: argparse.Namespace, traces: list[str], steps: int) -> list[CallVectorEnv]:
    """Calls with the functional and with the conventional codec, on paths drawn from ``traces``."""
    return [
        CallVectorEnv(
            CALLS,
            observation="concerto",
            action=LADDERS[options.ladder](),
            reward="concerto",
            place="sender",
            traces=traces,
            step_ms=options.interval_ms,
            episode_steps=steps + 1,
            feedback_ms=FEEDBACK_MS,
            shared=options.shared,
            cross_traffic=options.cross_traffic,
            loss=(0.0, 0.02),
            codec=codec,
            size=(640, 360),
            bounds_bps=(30_000, 20_000_000),
            threads=options.threads,
        )
        for codec in ("functional", "conventional")
    ]


Expert = Callable[[NDArray[np.float64], NDArray[np.int64]], Any]
"""Maps features (one row per call) and present places on the ladder to the next places."""


def expert_of(options: argparse.Namespace) -> Expert:
    """Concerto's expert, as selected by ``--expert``."""
    ladder, interval = LADDERS[options.ladder]().rates_bps, options.interval_ms / 1e3
    return lambda features, present: expert_choice(features, present, ladder, interval, options.expert)


def collect(  # noqa: PLR0913, PLR0917
    options: argparse.Namespace, traces: list[str], net: ConcertoNet, expert_share: float, seed: int, choose: Expert
) -> tuple[Samples, dict[str, float]]:
    """Calls in which the expert ``choose`` acts with probability ``expert_share``, and the net otherwise."""
    steps = round(options.call_seconds * 1e3 / options.interval_ms)
    draw = np.random.default_rng([seed, 0xD1CE])
    ladder = LADDERS[options.ladder]().rates_bps
    device = device_of(net)
    all_states, all_expert, rewards, used, delays = [], [], [], [], []
    net.eval()
    for env in environments(options, traces, steps):
        state, info = env.reset(seed=seed)
        present = np.full(CALLS, np.abs(ladder - INITIAL_BPS).argmin())
        states = np.empty((steps, CALLS, *SHAPE), np.float16)
        expert = np.empty((steps, CALLS), np.int64)
        for step in range(steps):
            states[step] = state
            expert[step] = choose(info["features"], present)
            with torch.no_grad():
                choice = expected_place(net(torch.from_numpy(state).to(device))).round().long().cpu().numpy()
            present = action = np.where(draw.random(CALLS) < expert_share, expert[step], choice)
            state, reward, _, _, info = env.step(action)
            features = info["features"]
            rewards.append(reward.mean())
            used.append(
                (features[:, _COLUMN["received_bps"]] / features[:, _COLUMN["capacity_bps"]].clip(1e4)).clip(0, 1)
            )
            delays.append(features[:, _COLUMN["delay_ms"]] - features[:, _COLUMN["smallest_delay_ms"]])
        env.close()
        all_states.append(states.swapaxes(0, 1))
        all_expert.append(expert.swapaxes(0, 1))
    outcome = {
        "reward": float(np.mean(rewards)),
        "link used": float(np.mean(used)),
        "queueing delay p95 (ms)": float(np.quantile(np.concatenate(delays), 0.95)),
    }
    return Samples(np.concatenate(all_states), np.concatenate(all_expert)), outcome


def check_batch(options: argparse.Namespace) -> None:
    """Refuses batches with more decisions than the calls of a loop have."""
    steps = round(options.call_seconds * 1e3 / options.interval_ms)
    runs = 2 * CALLS * (steps // WINDOW)
    if runs < max(1, options.batch // WINDOW):
        message = f"--batch {options.batch}: calls of {options.call_seconds:g} s have only"
        raise ValueError(f"{message} {runs * WINDOW} decisions, in runs of {WINDOW}; reduce it")


def train_epoch(
    options: argparse.Namespace, net: ConcertoNet, optimiser: torch.optim.Optimizer, data: list[Samples], show: Any
) -> float:
    """One pass over all samples, in batches of runs of ``WINDOW`` decisions; returns the mean loss."""
    runs = [
        (part, call, step)
        for part, samples in enumerate(data)
        for call in range(samples.expert.shape[0])
        for step in range(0, samples.expert.shape[1] - WINDOW + 1, WINDOW)
    ]
    size = max(1, options.batch // WINDOW)
    order = np.random.permutation(len(runs))
    device = device_of(net)
    net.train()
    total, count = 0.0, 0
    for first in range(0, len(order) - size + 1, size):
        chosen = [runs[index] for index in order[first : first + size]]
        states = np.stack([data[part].states[call, step : step + WINDOW] for part, call, step in chosen])
        expert = np.stack([data[part].expert[call, step : step + WINDOW] for part, call, step in chosen])
        flat = torch.from_numpy(states.astype(np.float32)).flatten(0, 1).to(device)
        wanted = torch.from_numpy(expert).to(device)
        scores = net(flat).view(size, WINDOW, -1)
        loss = imitation_loss(scores, wanted, options.loss, options.overshoot, options.smoothness)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total, count = total + loss.item(), count + 1
        if count % 50 == 0:
            show(first / len(order), total / count)
    return total / max(count, 1)


def stands_for(ladder: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rate to send for each rate of the ladder: the middle between it and the next.

    The expert chooses the highest rate that the link can carry, so the link's capacity is somewhat higher.
    """
    return np.append((ladder[:-1] + ladder[1:]) / 2, ladder[-1])


def write_model(run: Run, options: argparse.Namespace, net: ConcertoNet, test: list[str]) -> Path:
    """Writes the ONNX file, its card and its reference, with scores of calls on test traces."""
    net = net.cpu().eval()
    few = argparse.Namespace(**{**vars(options), "call_seconds": 4.0})
    samples, _ = collect(few, test, net, 0.0, 99, expert_of(options))
    examples = torch.from_numpy(samples.states[:: CALLS // 2, -1].astype(np.float32))
    ladder = stands_for(LADDERS[options.ladder]().rates_bps)
    metadata = {
        "lockstep.ladder_bps": ",".join(str(round(rate)) for rate in ladder),
        "lockstep.interval_ms": str(options.interval_ms),
        "lockstep.decision": "between",
        "lockstep.seed": str(options.seed),
    }
    card = {
        "state": "loss (share), queueing delay (s), sending rate and receive throughput (0: 10 kb/s, 1: 8 Mb/s, "
        "logarithmic); seconds, oldest first; 15 reports per second; 4 groups of packets per report",
        "says": "the probability that each rate of the ladder is the expert's; the decision is at the mean place",
        "ladder_bps": [round(rate) for rate in ladder],
        "interval_ms": options.interval_ms,
        "trained_on": f"{run.trained_on()}; calls of modelled codecs, functional and conventional",
        "curves": run.curves,
    }
    arguments: dict[str, Any] = {
        "shape": SHAPE,
        "names": ("state", "probabilities"),
        "metadata": metadata,
        "examples": examples,
    }
    return run.export_judged(Probabilities(net), test, card=card, **arguments)


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("concerto", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    check_batch(options)
    training, test = run.traces()
    net = ConcertoNet(len(LADDERS[options.ladder]().rates_bps), options.inputs).to(run.device)
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    begin = {"loop": 0, "epoch": 0, "collected": 0}
    state = run.load()
    if state is not None:
        net.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
        begin = state["at"]
    if options.export:
        if state is None:
            raise ValueError(f"{run.folder} has no checkpoint yet")
        print(write_model(run, options, net, test))
        return 0
    data = [run.load_array(f"loop-{loop}") for loop in range(begin["collected"])]
    samples = [Samples(kept["states"], kept["expert"]) for kept in data]
    total = options.loops * options.epochs
    for loop in range(begin["loop"], options.loops):
        if begin["collected"] == loop:
            share = options.expert_share**loop
            run.show(loop / options.loops, f"loop {loop + 1}: calls, the expert in {100 * share:.0f} %")
            fresh, _ = collect(options, training, net, share, 1_000 * options.seed + loop, expert_of(options))
            run.save_array(f"loop-{loop}", states=fresh.states, expert=fresh.expert)
            samples.append(fresh)
            begin = {"loop": loop, "epoch": 0, "collected": loop + 1}
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * 0.6**loop
        for epoch in range(begin["epoch"], options.epochs):
            done = loop * options.epochs + epoch
            loss = train_epoch(
                options,
                net,
                optimiser,
                samples,
                lambda share, mean, done=done: run.show((done + share) / total, f"loss {mean:.2f}"),
            )
            begin = {"loop": loop, "epoch": epoch + 1, "collected": loop + 1}
            run.log(done + 1, {"loss": loss})
            if epoch + 1 == options.epochs:
                _, outcome = collect(options, test, net, 0.0, 77, expert_of(options))
                run.log(done + 1, outcome)
                run.show((done + 1) / total, ", ".join(f"{name} {value:.2f}" for name, value in outcome.items()))
                begin = {"loop": loop + 1, "epoch": 0, "collected": loop + 1}
            run.save({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "at": begin})
            if options.stop_after is not None and done + 1 >= options.stop_after:
                return 0
    path = write_model(run, options, net, test)
    run.draw("Concerto", ("loss", "reward", "link used", "queueing delay p95 (ms)"))
    run.close()
    print(path)
    return 0
