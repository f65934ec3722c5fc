"""RL-V: Concerto's state and ladder, learned from a reward (the baseline of the Concerto paper, after Pensieve).

An actor-critic as Pensieve's: the actor says how likely each rate is, the critic how much reward will follow; entropy
keeps the actor trying. Pensieve's agents run beside each other and send gradients when they have some (A3C). Here the
calls are stepped together and one gradient is made of all (A2C, its synchronous form): the same estimate without stale
gradients, and the same seed gives the same weights. Advantages are generalised ones (Schulman et al., 2016).

The reward of a step is ``QualityReward``: the share of the link that was used, less half a point for each 100 ms that
packets waited, less twice the share lost, :data:`WORST` at least; less :data:`MOVED` for each place of the ladder that
the rate moved (Pensieve's smoothness).

The actor begins at a clone of a rule of thumb (:func:`careful`), as Merlin's and Loki's do. One that begins with
chance fills the queue of every call at once: all that it then sees are full queues, where nothing that it does in the
seconds before they are empty makes a difference to the reward; and a conventional codec, which follows a target within
a second, makes of targets that are drawn anew five times a second their mean. So it never saw a call recover. The
critic stands on what the actor's dense layer makes of a state, without a gradient into it: a critic that has learned
nothing yet would spoil the clone.
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
    environments,
    train_epoch,
)
from lockstep.learn.devices import device_of
from lockstep.learn.training import Run, train

_COLUMN = {name: place for place, name in enumerate(FEATURES)}
WORST = -3.0
"""The least reward of a step, before what moving costs: one long queue shall not drown all else."""
MOVED = 0.03
"""What it costs to move the rate by a place of the ladder."""
LONG_MS, SHORT_MS, LOSSY = 60.0, 25.0, 0.1
"""The rule of thumb goes down where packets waited for longer, and up where for less, milliseconds; and down where
more than this share was lost."""
FALL, ROOM = 0.8, 1.5
"""To what share of the throughput it goes down, and to which multiple of it up at most."""


def careful(ladder: NDArray[np.float64]) -> Expert:
    """The rule of thumb, which knows only what a sender sees: a place up where the queue is short.

    Where it is long, down to less than what came through; between the two, no higher than now.
    """

    def place(rate: NDArray[np.float64]) -> Any:
        return np.maximum(np.searchsorted(ladder, rate, side="right") - 1, 0)

    def choose(features: NDArray[np.float64], present: NDArray[np.int64]) -> Any:
        waited = features[:, _COLUMN["delay_ms"]] - features[:, _COLUMN["smallest_delay_ms"]]
        received = features[:, _COLUMN["received_bps"]]
        # What came in one step is little, and so uncertain: by more than a place it goes down only from a queue.
        up = np.minimum(present + 1, np.maximum(place(ROOM * received) + 1, present - 1))
        held = np.minimum(present, np.maximum(place(received) + 1, present - 1))
        down = np.minimum(present, place(FALL * received))
        late = (waited > LONG_MS) | (features[:, _COLUMN["loss"]] > LOSSY)
        return np.clip(np.where(late, down, np.where(waited > SHORT_MS, held, up)), 0, len(ladder) - 1)

    return choose


class ActorCritic(nn.Module):
    """Concerto's net, and the value of a state made of what its dense layer makes."""

    def __init__(self, rates: int) -> None:
        """For a ladder of ``rates``."""
        super().__init__()
        self.actor = ConcertoNet(rates)
        self.critic = nn.Sequential(nn.Linear(256, 64), nn.LeakyReLU(), nn.Linear(64, 1))

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores ``(calls, rates)`` and values ``(calls,)``."""
        features = self.actor.features(state)
        return self.actor.scores(features), self.critic(features.detach()).squeeze(-1)


def clone(run: Run, options: argparse.Namespace, net: ActorCritic, training: list[str]) -> None:
    """The actor learns what the rule of thumb says, in its calls and then in calls that are more and more its own."""
    says = careful(LADDERS[options.ladder]().rates_bps)
    optimiser = torch.optim.Adam(net.actor.parameters(), 1e-3)
    told = argparse.Namespace(**{**vars(options), "loss": "cross-entropy", "overshoot": 0.0, "smoothness": 0.0})
    known: list[Samples] = []
    for loop in range(options.clone_loops):
        known.append(collect(told, training, net.actor, 0.5**loop, 1_000 * options.seed + loop, says)[0])
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * 0.5**loop
        for _ in range(options.clone_epochs):
            loss = train_epoch(told, net.actor, optimiser, known, lambda _share, _mean: None)
            run.show(0.0, f"clone of the rule, loop {loop + 1}: loss {loss:.3f}")


class Calls:
    """Calls with either codec, stepped together."""

    def __init__(self, options: argparse.Namespace, traces: list[str], seed: int) -> None:
        """Calls that begin."""
        ladder = LADDERS[options.ladder]().rates_bps
        self.envs = environments(options, traces, round(options.call_seconds * 1e3 / options.interval_ms))
        self.count = CALLS * len(self.envs)
        self.state = np.concatenate([env.reset(seed=seed + place)[0] for place, env in enumerate(self.envs)])
        self.ended = np.zeros(self.count, np.bool_)
        self.initial = int(np.abs(ladder - INITIAL_BPS).argmin())
        self.present = np.full(self.count, self.initial)

    def step(self, choice: NDArray[np.int64]) -> NDArray[np.float32]:
        """Goes to these places; gives the rewards, which count for nothing where a call had ended before."""
        parts = [env.step(choice[place * CALLS : (place + 1) * CALLS]) for place, env in enumerate(self.envs)]
        reward = np.maximum(np.concatenate([part[1] for part in parts]), WORST)
        reward -= MOVED * np.abs(choice - self.present)
        self.present = np.where(self.ended, self.initial, choice)
        self.state = np.concatenate([part[0] for part in parts])
        self.ended = np.concatenate([part[3] for part in parts])
        return reward.astype(np.float32)


def rollout(options: argparse.Namespace, net: ActorCritic, calls: Calls) -> dict[str, torch.Tensor]:
    """Steps of all calls, ``(steps, calls)``; states have a row more, that after the last step."""
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
    net: ActorCritic,
    optimiser: torch.optim.Optimizer,
    kept: dict[str, torch.Tensor],
    entropy_weight: float,
    actor_too: bool,
) -> dict[str, float]:
    """One gradient of a rollout."""
    steps, calls = kept["reward"].shape
    scores, values = net(kept["state"].flatten(0, 1))
    scores, values = scores.view(steps + 1, calls, -1)[:-1], values.view(steps + 1, calls)
    known = values.detach()
    advantages = torch.zeros_like(kept["reward"])
    advantage = torch.zeros(calls, device=values.device)
    for step in reversed(range(steps)):
        # The step after an episode's end begins another; the end is that of a minute, not of the call.
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


def write_model(run: Run, options: argparse.Namespace, net: ActorCritic, test: list[str]) -> Path:
    """The ONNX file of the actor, its card and its reference."""
    actor = net.actor.cpu().eval()
    ladder = LADDERS[options.ladder]().rates_bps
    few = argparse.Namespace(**{**vars(options), "call_seconds": 4.0})
    samples, _ = collect(few, test, actor, 0.0, 99, careful(ladder))
    metadata = {
        "lockstep.ladder_bps": ",".join(str(round(rate)) for rate in ladder),
        "lockstep.interval_ms": str(options.interval_ms),
        "lockstep.decision": "mean",
        "lockstep.seed": str(options.seed),
    }
    card = {
        "state": "that of concerto",
        "says": "how likely each rate of the ladder is the best; the mean place is decided on",
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
    """Trains; gives the exit status."""
    return train("rlv", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """The same, in the folder of a run."""
    if options.clone_loops and options.clone_epochs:
        check_batch(options)
    training, test = run.traces()
    ladder = LADDERS[options.ladder]().rates_bps
    net = ActorCritic(len(ladder)).to(run.device)
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
            # Calls begin anew where checkpoints are, so that a run that goes on sees the calls that it would have seen.
            calls = Calls(options, training, 1_000_003 * options.seed + number)
        left = 1.0 - number / options.updates
        for group in optimiser.param_groups:
            group["lr"] = options.learning_rate * left
        steps = rollout(options, net, calls)
        rewards.append(float(steps["reward"].mean()))
        logged = update(options, net, optimiser, steps, options.entropy * left, number >= options.critic_first)
        if (number + 1) % every == 0 or number + 1 == options.updates:
            # Of decisions as calls have them, which try nothing.
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
