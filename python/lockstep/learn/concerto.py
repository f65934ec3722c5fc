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
- The third array is the sending rate of acknowledged packets. The paper has the codec's own bit rate.
- The transport sends bursts at up to 2.5 times the rate. The paper's transport sends at the rate.

``--as-published`` is without these differences:

- strides of 1; the largest score; the rates of the paper's ladder; a second between decisions
- the expert ``drains``; phi of equation 7 (:func:`printed_smoothness`)
- the codec's bit rate; pacing at the rate
- a slope of 0.5 in the dense layer, and L2 regularisation

One difference remains. The gradient of the smoothness term needs the mean place, because the largest score has none.

``--network`` has the networks that the paper rejected: a 1-D convolution, and fully connected layers.
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
from lockstep.gym.observations import ConcertoObservation
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
L2 = 1e-4
"""Weight of the L2 regularisation as published. The paper prints none; this is a usual one."""
PUBLISHED_SLOPE = 0.5
"""Slope of the dense layer's rectifier in the paper."""
_COLUMN = {name: place for place, name in enumerate(FEATURES)}


INPUTS = {"both": (True, True, True, True), "transport": (True, True, False, False)}
"""Signals in the observation: those of both layers, or the transport's loss and delay only (an ablation)."""


class ConcertoNet(nn.Module):
    """State -> a score for each rate."""

    def __init__(self, rates: int, inputs: str = "both", network: str = "2d", *, as_published: bool = False) -> None:
        """An untrained net for a ladder of ``rates``."""
        super().__init__()
        signals, seconds, reports, groups = SHAPE
        self.network = network
        self.slope = PUBLISHED_SLOPE if as_published else 0.01
        strides = (1, 1) if as_published else (3, 2)
        left = -(-reports // strides[0])
        # Four groups of filters, one for each array: the four layers as one operator.
        if network == "2d":
            self.arrays: nn.Module = nn.Conv2d(signals * seconds, signals * 64, 3, padding=1, groups=signals)
            self.fusion: nn.Module = nn.Conv2d(signals * 64, 128, 3, stride=strides, padding=1)
            width = 128 * left * -(-groups // strides[1])
        elif network == "1d":
            self.arrays = nn.Conv1d(signals * seconds * groups, signals * 64, 3, padding=1, groups=signals)
            self.fusion = nn.Conv1d(signals * 64, 128, 3, stride=strides[0], padding=1)
            width = 128 * left
        else:
            self.arrays = nn.Conv1d(signals * seconds * reports * groups, signals * 64, 1, groups=signals)
            self.fusion = nn.Conv1d(signals * 64, 128, 1)
            width = 128
        self.dense = nn.Linear(width, 256)
        self.scores = nn.Linear(256, rates)
        # Hidden signals have zero weights that never learn, so that the model has the same shape with any inputs.
        weight = self.arrays.weight
        seen = torch.tensor(INPUTS[inputs], dtype=weight.dtype).repeat_interleave(64)
        seen = seen.view(-1, *[1] * (weight.dim() - 1))
        with torch.no_grad():
            weight *= seen
        weight.register_hook(lambda gradient: gradient * seen.to(gradient.device))

    def features(self, state: torch.Tensor) -> torch.Tensor:
        """Output of the dense layer: states ``(calls, 4, 3, 15, 4)`` -> ``(calls, 256)``."""
        if self.network == "2d":
            given = state.flatten(1, 2)
        elif self.network == "1d":
            given = state.transpose(3, 4).flatten(1, 3)
        else:
            given = state.flatten(1).unsqueeze(-1)
        hidden = functional.leaky_relu(self.arrays(given))
        hidden = functional.leaky_relu(self.fusion(hidden))
        return functional.leaky_relu(self.dense(hidden.flatten(1)), self.slope)

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


def printed_smoothness(expected: torch.Tensor) -> torch.Tensor:
    """Mean of |pi - phi|, phi the sum of 2^-k pi(n - k) over the decisions before (equations 6 and 7).

    ``expected`` has shape ``(calls, WINDOW)``; only its last decision has all that precede it. The weights sum to less
    than one, as printed, so that a constant rate is not free.
    """
    before = expected[:, :-1].flip(1).detach()
    halves = 0.5 ** torch.arange(1, WINDOW, dtype=expected.dtype, device=expected.device)
    return (expected[:, -1] - (before * halves).sum(-1)).abs().mean()


def imitation_loss(  # noqa: PLR0913
    scores: torch.Tensor,
    expert: torch.Tensor,
    kind: str,
    overshoot: float,
    smoothness: float,
    *,
    as_published: bool = False,
) -> torch.Tensor:
    """The loss of batches of ``(calls, WINDOW)`` decisions with scores ``(calls, WINDOW, rates)``.

    The paper's losses: l1 is ``cross-entropy``, l2 ``weighted`` (C = 0), l3 ``overshoot`` with C = 100, l4 with C = 8.
    """
    expected = expected_place(scores)
    wanted = expert.to(scores.dtype)
    place = scores.argmax(-1).to(scores.dtype) if as_published else expected
    entropy = functional.cross_entropy(scores.flatten(0, 1), expert.flatten(), reduction="none").view_as(expected)
    error = (place - wanted).detach()
    if kind == "cross-entropy":
        weight = torch.ones_like(error)
    else:
        weight = error.square()
        if kind == "overshoot":
            # More than half a place above the expert's choice rounds to the next rate.
            weight = weight + overshoot * (error > 0.5)
    loss = (weight * entropy).mean()
    if as_published:
        return loss + smoothness * printed_smoothness(expected)
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
            observation=ConcertoObservation(encoded=options.as_published),
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


def chosen(scores: torch.Tensor, *, as_published: bool) -> NDArray[np.int64]:
    """The places on the ladder that the net decides on: the mean one, or that of the largest score as published."""
    places = scores.argmax(-1) if as_published else expected_place(scores).round().long()
    decided: NDArray[np.int64] = places.cpu().numpy()
    return decided


def collect(  # noqa: PLR0913, PLR0917
    options: argparse.Namespace, traces: list[str], net: nn.Module, expert_share: float, seed: int, choose: Expert
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
                choice = chosen(net(torch.from_numpy(state).to(device)), as_published=options.as_published)
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
    options: argparse.Namespace, net: nn.Module, optimiser: torch.optim.Optimizer, data: list[Samples], show: Any
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
        kind, cost, smooth = options.loss, options.overshoot, options.smoothness
        loss = imitation_loss(scores, wanted, kind, cost, smooth, as_published=options.as_published)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total, count = total + loss.item(), count + 1
        if count % 50 == 0:
            show(first / len(order), total / count)
    return total / max(count, 1)


def decision_metadata(options: argparse.Namespace, ladder: NDArray[np.float64], decision: str) -> dict[str, str]:
    """What the controller must know: ladder, interval and decision; also inputs and pacing as published."""
    metadata = {
        "lockstep.ladder_bps": ",".join(str(round(rate)) for rate in ladder),
        "lockstep.interval_ms": str(options.interval_ms),
        "lockstep.decision": "best" if options.as_published else decision,
        "lockstep.seed": str(options.seed),
    }
    return metadata | ({"lockstep.inputs": "encoded", "lockstep.pacing": "1"} if options.as_published else {})


def state_of(options: argparse.Namespace) -> str:
    """The state in words, for cards."""
    sending = "bit rate of the encoder over a second" if options.as_published else "sending rate"
    return (
        f"loss (share), queueing delay (s), {sending} and receive throughput (0: 10 kb/s, 1: 8 Mb/s, "
        "logarithmic); seconds, oldest first; 15 reports per second; 4 groups of packets per report"
    )


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
    ladder = LADDERS[options.ladder]().rates_bps
    if not options.as_published:
        ladder = stands_for(ladder)
    metadata = decision_metadata(options, ladder, "between")
    where = "the largest" if options.as_published else "at the mean place"
    card = {
        "state": state_of(options),
        "says": f"the probability that each rate of the ladder is the expert's; the decision is {where}",
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
    rates = len(LADDERS[options.ladder]().rates_bps)
    net = ConcertoNet(rates, options.inputs, options.network, as_published=options.as_published).to(run.device)
    optimiser = torch.optim.Adam(net.parameters(), 1e-3, weight_decay=L2 if options.as_published else 0.0)
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
