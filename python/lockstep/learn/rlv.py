"""RL-V: Concerto's state and ladder, learned from a reward (the baseline of the Concerto paper, after Pensieve).

An actor-critic as in Pensieve: the actor returns a probability for each rate, the critic the expected reward. An
entropy term keeps the actor exploring. Pensieve's agents run in parallel and send gradients asynchronously (A3C). Here
all calls step together and give one gradient (A2C, the synchronous form). The estimate is the same without stale
gradients, and equal seeds give equal weights. Advantages are generalised (Schulman et al., 2016).

The reward of a step is ``QualityReward``, at least :data:`WORST`: link utilisation, less half a point per 100 ms of
queueing delay, less twice the loss. Each place on the ladder by which the rate moves costs :data:`MOVED`, as in
Pensieve's smoothness.

The actor begins as a clone of a heuristic rule (:func:`careful`), as in Merlin and Loki. A random actor fills the queue
of every call at once, and then observes only full queues. Until they drain, its actions do not change the reward. A
conventional codec also averages random targets: it follows a target within a second, and draws come five times a
second. So a random actor never observes a recovery. The critic uses the actor's dense layer as input, without a
gradient into it: an untrained critic would spoil the clone.

``--as-published`` has Pensieve's network (:class:`PensieveNet`) for the actor, and another one for the critic. Training
begins from scratch. Inputs, ladder, interval and pacing are those of Concerto as published. The paper prints no other
numbers of RL-V; discount and learning rate are Pensieve's (SIGCOMM 2017). The entropy weight is this module's, since
advantages are normalised here.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from lockstep.gym import FEATURES
from lockstep.learn.concerto import (
    CALLS,
    INITIAL_BPS,
    LADDERS,
    SHAPE,
    ConcertoNet,
    Expert,
    Probabilities,
    Samples,
    check_batch,
    collect,
    decision_metadata,
    environments,
    state_of,
    train_epoch,
)
from lockstep.learn.devices import device_of
from lockstep.learn.training import Run, train

_COLUMN = {name: place for place, name in enumerate(FEATURES)}
WORST = -3.0
"""Minimum reward of a step, without the cost of moves, so that one long queue does not dominate."""
MOVED = 0.03
"""Cost of moving the rate by one place on the ladder."""
LONG_MS, SHORT_MS, LOSSY = 60.0, 25.0, 0.1
"""Thresholds of the rule: it steps down above ``LONG_MS`` of queueing delay or above a loss of ``LOSSY``, and up below
``SHORT_MS``."""
FALL, ROOM = 0.8, 1.5
"""Share of the throughput after a step down, and largest multiple of it after a step up."""


def careful(ladder: NDArray[np.float64]) -> Expert:
    """A heuristic rule from signals of the sender: one place up while the queue is short.

    While the queue is long, the rate falls below the throughput. In between, it does not rise.
    """

    def place(rate: NDArray[np.float64]) -> Any:
        return np.maximum(np.searchsorted(ladder, rate, side="right") - 1, 0)

    def choose(features: NDArray[np.float64], present: NDArray[np.int64]) -> Any:
        waited = features[:, _COLUMN["delay_ms"]] - features[:, _COLUMN["smallest_delay_ms"]]
        received = features[:, _COLUMN["received_bps"]]
        # The throughput of one step is uncertain, so without a queue the rate falls by at most one place.
        up = np.minimum(present + 1, np.maximum(place(ROOM * received) + 1, present - 1))
        held = np.minimum(present, np.maximum(place(received) + 1, present - 1))
        down = np.minimum(present, place(FALL * received))
        late = (waited > LONG_MS) | (features[:, _COLUMN["loss"]] > LOSSY)
        return np.clip(np.where(late, down, np.where(waited > SHORT_MS, held, up)), 0, len(ladder) - 1)

    return choose


class PensieveNet(nn.Module):
    """Pensieve's network: a 1-D convolution of 128 filters of size 4 over each input's history, a dense layer of 128.

    The history of an input is its 45 reports, with the four groups of a report as channels.
    """

    def __init__(self, outputs: int) -> None:
        """An untrained net."""
        super().__init__()
        signals, seconds, reports, groups = SHAPE
        self.histories = nn.Conv1d(signals * groups, signals * 128, 4, groups=signals)
        self.dense = nn.Linear(signals * 128 * (seconds * reports - 3), 128)
        self.scores = nn.Linear(128, outputs)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """States ``(calls, 4, 3, 15, 4)`` -> ``(calls, outputs)``."""
        histories = state.flatten(2, 3).transpose(2, 3).flatten(1, 2)
        hidden = functional.relu(self.histories(histories)).flatten(1)
        out: torch.Tensor = self.scores(functional.relu(self.dense(hidden)))
        return out


class PublishedActorCritic(nn.Module):
    """Pensieve's actor and critic, which share no weights."""

    def __init__(self, rates: int) -> None:
        """Untrained nets for a ladder of ``rates``."""
        super().__init__()
        self.actor = PensieveNet(rates)
        self.critic = PensieveNet(1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores ``(calls, rates)`` and values ``(calls,)``."""
        return self.actor(state), self.critic(state).squeeze(-1)


class ActorCritic(nn.Module):
    """Concerto's net, and a value of the state from its dense layer."""

    def __init__(self, rates: int) -> None:
        """An untrained net for a ladder of ``rates``."""
        super().__init__()
        self.actor = ConcertoNet(rates)
        self.critic = nn.Sequential(nn.Linear(256, 64), nn.LeakyReLU(), nn.Linear(64, 1))

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores ``(calls, rates)`` and values ``(calls,)``."""
        features = self.actor.features(state)
        return self.actor.scores(features), self.critic(features.detach()).squeeze(-1)


AnyActorCritic = ActorCritic | PublishedActorCritic


def clone(run: Run, options: argparse.Namespace, net: AnyActorCritic, training: list[str]) -> None:
    """Trains the actor on the rule's decisions, in the rule's calls and increasingly in the actor's own calls."""
    choose = careful(LADDERS[options.ladder]().rates_bps)
    optimiser = torch.optim.Adam(net.actor.parameters(), 1e-3)
    cloning = argparse.Namespace(**{**vars(options), "loss": "cross-entropy", "overshoot": 0.0, "smoothness": 0.0})
    known: list[Samples] = []
    for loop in range(options.clone_loops):
        known.append(collect(cloning, training, net.actor, 0.5**loop, 1_000 * options.seed + loop, choose)[0])
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * 0.5**loop
        for _ in range(options.clone_epochs):
            loss = train_epoch(cloning, net.actor, optimiser, known, lambda _share, _mean: None)
            run.show(0.0, f"clone of the rule, loop {loop + 1}: loss {loss:.3f}")


class Calls:
    """Parallel calls with both codecs."""

    def __init__(self, options: argparse.Namespace, traces: list[str], seed: int) -> None:
        """Calls at their start."""
        ladder = LADDERS[options.ladder]().rates_bps
        self.envs = environments(options, traces, round(options.call_seconds * 1e3 / options.interval_ms))
        self.count = CALLS * len(self.envs)
        self.state = np.concatenate([env.reset(seed=seed + place)[0] for place, env in enumerate(self.envs)])
        self.ended = np.zeros(self.count, np.bool_)
        self.initial = int(np.abs(ladder - INITIAL_BPS).argmin())
        self.present = np.full(self.count, self.initial)

    def step(self, choice: NDArray[np.int64]) -> NDArray[np.float32]:
        """Moves to these places; returns the rewards, which do not count in calls that had already ended."""
        parts = [env.step(choice[place * CALLS : (place + 1) * CALLS]) for place, env in enumerate(self.envs)]
        reward = np.maximum(np.concatenate([part[1] for part in parts]), WORST)
        reward -= MOVED * np.abs(choice - self.present)
        self.present = np.where(self.ended, self.initial, choice)
        self.state = np.concatenate([part[0] for part in parts])
        self.ended = np.concatenate([part[3] for part in parts])
        return reward.astype(np.float32)


def rollout(options: argparse.Namespace, net: AnyActorCritic, calls: Calls) -> dict[str, torch.Tensor]:
    """Steps of all calls, ``(steps, calls)``; the states have one more row, after the last step."""
    device = device_of(net)
    rows: dict[str, list[torch.Tensor]] = {"state": [], "action": [], "reward": [], "ended": []}
    for _ in range(options.steps):
        seen = torch.from_numpy(calls.state).to(device)
        with torch.no_grad():
            choice = torch.distributions.Categorical(logits=net.actor(seen)).sample()
        rows["state"].append(seen)
        rows["action"].append(choice)
        rows["ended"].append(torch.from_numpy(calls.ended.copy()))
        rows["reward"].append(torch.from_numpy(calls.step(choice.cpu().numpy())))
    rows["state"].append(torch.from_numpy(calls.state).to(device))
    return {name: torch.stack(values).to(device) for name, values in rows.items()}


def update(  # noqa: PLR0913, PLR0917
    options: argparse.Namespace,
    net: AnyActorCritic,
    optimiser: torch.optim.Optimizer,
    kept: dict[str, torch.Tensor],
    entropy_weight: float,
    actor_too: bool,
) -> dict[str, float]:
    """One gradient step on a rollout."""
    steps, calls = kept["reward"].shape
    scores, values = net(kept["state"].flatten(0, 1))
    scores, values = scores.view(steps + 1, calls, -1)[:-1], values.view(steps + 1, calls)
    known = values.detach()
    advantages = torch.zeros_like(kept["reward"])
    advantage = torch.zeros(calls, device=values.device)
    for step in reversed(range(steps)):
        # The step after an episode's end begins another episode, so the advantage does not continue across it.
        begins = kept["ended"][step]
        error = kept["reward"][step] + options.discount * known[step + 1] - known[step]
        advantage = error + options.discount * options.gae_lambda * advantage
        advantage = torch.where(begins, torch.zeros_like(advantage), advantage)
        advantages[step] = advantage
    counts = (~kept["ended"]).to(values.dtype)
    returns = advantages + known[:-1]
    log_probability = functional.log_softmax(scores, -1)
    chosen = log_probability.gather(-1, kept["action"].unsqueeze(-1)).squeeze(-1)
    entropy = -(log_probability.exp() * log_probability).sum(-1)
    normal = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    actor = -((chosen * normal + entropy_weight * entropy) * counts).sum() / counts.sum()
    critic = ((returns - values[:-1]).square() * counts).sum() / counts.sum()
    optimiser.zero_grad()
    (0.5 * critic + (actor if actor_too else 0.0)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    return {"critic loss": critic.item(), "entropy": (entropy * counts).sum().item() / counts.sum().item()}


def write_model(run: Run, options: argparse.Namespace, net: AnyActorCritic, test: list[str]) -> Path:
    """Writes the ONNX file of the actor, its card and its reference."""
    actor = net.actor.cpu().eval()
    ladder = LADDERS[options.ladder]().rates_bps
    few = argparse.Namespace(**{**vars(options), "call_seconds": 4.0})
    samples, _ = collect(few, test, actor, 0.0, 99, careful(ladder))
    metadata = decision_metadata(options, ladder, "mean")
    where = "the largest" if options.as_published else "the mean place"
    card = {
        "state": state_of(options),
        "says": f"the probability that each rate of the ladder is the best; the decision is {where}",
        "ladder_bps": [round(rate) for rate in ladder],
        "interval_ms": options.interval_ms,
        "trained_on": f"{run.trained_on()}; calls of modelled codecs, functional and conventional",
        "curves": run.curves,
    }
    given: dict[str, Any] = {
        "shape": SHAPE,
        "names": ("state", "probabilities"),
        "metadata": metadata,
        "examples": torch.from_numpy(samples.states[:: CALLS // 2, -1].astype(np.float32)),
    }
    return run.export_judged(Probabilities(actor), test, card=card, **given)


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("rlv", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    if options.clone_loops and options.clone_epochs:
        check_batch(options)
    training, test = run.traces()
    ladder = LADDERS[options.ladder]().rates_bps
    made = PublishedActorCritic if options.as_published else ActorCritic
    net = made(len(ladder)).to(run.device)
    optimiser = torch.optim.Adam(net.parameters(), options.learning_rate)
    first = 0
    kept = run.load()
    if kept is not None:
        net.load_state_dict(kept["net"])
        optimiser.load_state_dict(kept["optimiser"])
        first = kept["update"]
    elif options.export:
        raise ValueError(f"{run.folder} has no checkpoint yet")
    if options.export:
        print(write_model(run, options, net, test))
        return 0
    if kept is None:
        clone(run, options, net, training)
    every = max(1, options.updates // 20)
    calls, rewards = None, []
    for number in range(first, options.updates):
        if calls is None or number % every == 0:
            # Calls restart at checkpoints, so that a resumed run has the same calls.
            calls = Calls(options, training, 1_000_003 * options.seed + number)
        left = 1.0 - number / options.updates
        for group in optimiser.param_groups:
            group["lr"] = options.learning_rate * left
        steps = rollout(options, net, calls)
        rewards.append(float(steps["reward"].mean()))
        logged = update(options, net, optimiser, steps, options.entropy * left, number >= options.critic_first)
        if (number + 1) % every == 0 or number + 1 == options.updates:
            # Decisions as in real calls, without sampling.
            _, outcome = collect(options, test, net.actor, 0.0, 77, careful(ladder))
            logged |= {"reward, trying": float(np.mean(rewards)), **outcome}
            run.log(number + 1, logged)
            run.show((number + 1) / options.updates, ", ".join(f"{name} {value:.3f}" for name, value in logged.items()))
            rewards = []
            run.save({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "update": number + 1})
            if options.stop_after is not None and number + 1 >= options.stop_after:
                return 0
    path = write_model(run, options, net, test)
    run.draw("RL-V", ("reward", "reward, trying", "queueing delay p95 (ms)", "critic loss", "entropy"))
    run.close()
    print(path)
    return 0
