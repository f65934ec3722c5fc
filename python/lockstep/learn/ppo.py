"""PPO for estimators at the receiver: BoB, HRCC, Gemini. A :class:`Learner` contains what differs between them.

Half of the calls have a functional codec model, half a conventional one. They continue from update to update, with a
decision every 200 ms. The Rust code of calls computes observations and heuristics. The sender follows the estimate
with the same loss controller as in calls.

PPO follows Schulman et al. (2017) with the details of CleanRL: a clipped ratio, generalised advantage estimation, and a
normal distribution around the net's output. The calls restart after each round, so that a resumed run gives the same
weights.
"""

import argparse
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep.gym import FEATURES, CallVectorEnv
from lockstep.gym.actions import GivenRate
from lockstep.gym.features import linear, logarithmic
from lockstep.gym.observations import CallObservation
from lockstep.learn.devices import device_of
from lockstep.learn.training import FEEDBACK_MS, Run

Seen = NDArray[np.float32]
INTERVAL_MS = 200
"""Time between two decisions, as in AlphaRTC and BoB's paper."""
CODECS = ("functional", "conventional")
_COLUMN = {name: place for place, name in enumerate(FEATURES)}
PRIVILEGED = 11
"""Number of privileged inputs of the critic (:func:`privileged`, :func:`future_capacities`)."""
EXCESS_WEIGHT = 1e3
"""Weight of the squared distance of the net's output from the range in use."""
FORESIGHT = (0.8, 0.95)
"""Decay per decision of the averages of future capacities; the time constants are one and four seconds."""


def privileged(features: NDArray[np.float64], codec: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values that only the simulator knows, for the critic: shape ``(calls, PRIVILEGED - len(FORESIGHT))``.

    Rates on the logarithmic scale: capacity in this and the next step, sent, target. Then: drain time of the bottleneck
    queue (s), one-way delay and its minimum (s), loss, and the kind of codec.
    """

    def column(name: str) -> NDArray[np.float64]:
        return features[:, _COLUMN[name]]

    rates = ("capacity_bps", "next_capacity_bps", "sent_bps", "target_bps")
    queue = column("queued_bytes") * 8.0 / np.maximum(column("next_capacity_bps"), 3e4)
    rest = (queue, column("delay_ms") / 1e3, column("smallest_delay_ms") / 1e3)
    parts = [*(logarithmic(column(name)) for name in rates), *(np.clip(one, 0.0, 3.0) for one in rest)]
    return np.stack([*parts, column("loss"), codec], axis=-1)


def future_capacities(now: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Averages of future capacities until the end of the call or of the known steps, as a baseline of advantages.

    ``now`` are capacities, shape ``(steps + 1, calls)``; ``ends`` marks ends of calls, ``(steps, calls)``. Decisions do
    not change the capacity, so it may be in the baseline. Then a decision gets no credit for luck (Mao et al., 2019,
    *Variance reduction for reinforcement learning in input-driven environments*).
    """
    known = torch.zeros(*now.shape, len(FORESIGHT), device=now.device)
    known[-1] = now[-1].unsqueeze(-1)
    kept = torch.tensor(FORESIGHT, device=now.device)
    for step in reversed(range(len(ends))):
        coming = (1.0 - kept) * now[step + 1].unsqueeze(-1) + kept * known[step + 1]
        known[step] = torch.where(ends[step].unsqueeze(-1) > 0, now[step].unsqueeze(-1), coming)
    return known


class PrivilegedCritic(nn.Module):
    """Critic with privileged inputs: observation and simulator values -> value. It is not part of the model."""

    def __init__(self, width: int) -> None:
        """An untrained critic for ``width`` numbers in total."""
        super().__init__()
        parts = [nn.Linear(width, 128), nn.LeakyReLU(), nn.Linear(128, 128), nn.LeakyReLU(), nn.Linear(128, 1)]
        self.parts = nn.Sequential(*parts)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Values, ``(calls, 1)``, of concatenated observations and privileged inputs."""
        out: torch.Tensor = self.parts(seen)
        return out


def best_reward(kind: str, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reward of a sender that uses exactly the link's capacity without a queue.

    Decisions do not change it, so subtracting it from every reward does not change the best policy. It is most of the
    difference between calls, which would otherwise hide the effect of decisions.
    """
    capacity = features[:, _COLUMN["capacity_bps"]]
    delay = features[:, _COLUMN["smallest_delay_ms"]] / 1e3
    if kind == "hrcc":
        best: NDArray[np.float64] = 0.6 * np.log(4.0 * capacity / 1e6 + 1.0) - delay
        return best
    return logarithmic(capacity) - np.minimum(delay, 1.0)


class Learner(Protocol):
    """One of the estimators: its nets, and the use of their output."""

    name: str
    observation: str
    """Name of the observation in the Rust code."""
    is_categorical: bool
    """Whether the actor returns a probability for each action; otherwise the mean of a normal distribution."""
    critic_rate: float
    """Learning rate of the critic over that of the actor."""
    shape: tuple[int, ...]
    """Shape of the observation."""
    reward: str
    """Name of the reward preset."""
    every: int
    """Number of decisions of which one is the net's."""
    actor: nn.Module
    """Observation -> one number, the mean of the sampled actions; or probabilities of the actions."""
    critic: nn.Module
    """Observation -> value."""
    spread: tuple[float, float]
    """First and last standard deviation of the sampled actions."""

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rates in use, bit/s, for the net's ``action``."""
        ...

    def heuristic(self, seen: Seen) -> NDArray[np.float64]:
        """The rates of the heuristic."""
        ...

    def counts(self, seen: Seen) -> NDArray[np.bool_]:
        """Flags of the decisions in which the net's output has an effect."""
        ...

    def excess(self, seen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Distance of the net's output from the range in use, where no sampled action would lead back."""
        ...


def policy(learner: Learner, output: torch.Tensor, spread: float) -> torch.distributions.Distribution:
    """The distribution of actions for the actor's output."""
    if learner.is_categorical:
        return torch.distributions.Categorical(probs=output)
    return torch.distributions.Normal(output, spread)


def decided(learner: Learner, output: torch.Tensor) -> NDArray[np.float64]:
    """The actions without sampling, as in calls."""
    action = output.argmax(-1) if learner.is_categorical else output
    return action.cpu().numpy().astype(np.float64)


class Calls:
    """Parallel calls with both codecs."""

    def __init__(self, learner: Learner, options: argparse.Namespace, traces: list[str], seed: int) -> None:
        """Calls at their start."""
        self.kind = learner.reward
        self.count = _calls(options)
        self.half = self.count // 2
        self.envs = [
            CallVectorEnv(
                self.half,
                observation=CallObservation(learner.observation, learner.shape, -1.0, 10.0),
                action=GivenRate(),
                reward=learner.reward,
                place="receiver",
                traces=traces,
                step_ms=INTERVAL_MS,
                # A policy that decides every fourth step also decides in the first step of an episode.
                episode_steps=round(options.call_seconds * 1e3 / INTERVAL_MS / learner.every) * learner.every - 1,
                delay_ms=(5.0, 100.0),
                queue_packets=(20, 300),
                loss=(0.0, 0.02),
                codec=codec,
                size=(1280, 720),
                bounds_bps=(30_000, 20_000_000),
                feedback_ms=FEEDBACK_MS,
                shared=options.shared,
                cross_traffic=options.cross_traffic,
                threads=options.threads,
            )
            for codec in CODECS
        ]
        begun = [env.reset(seed=seed + place) for place, env in enumerate(self.envs)]
        self.seen: Seen = np.concatenate([part[0] for part in begun])
        self.features: NDArray[np.float64] = np.concatenate([part[1]["features"] for part in begun])
        self.codec = np.repeat(np.arange(len(CODECS), dtype=np.float64), self.half)
        self.begun = np.zeros(self.count, np.bool_)

    def step(self, rates: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Uses ``rates`` for an interval; returns rewards relative to the best ones, and flags of ended calls."""
        parts = [env.step(rates[place * self.half : (place + 1) * self.half]) for place, env in enumerate(self.envs)]
        self.seen = np.concatenate([part[0] for part in parts])
        self.features = np.concatenate([part[4]["features"] for part in parts])
        rewards = [part[1] - best_reward(self.kind, part[4]["features"]) for part in parts]
        return np.concatenate(rewards), np.concatenate([part[3] for part in parts])

    def turn(
        self, learner: Learner, action: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """Applies the net's action, and then the heuristic's until the net's next decision.

        Returns the rewards, flags of ended calls, and the rates of the net.
        """
        rates = learner.rates(self.seen, action)
        reward, ended = self.step(rates)
        for _ in range(1, learner.every):
            more, ends = self.step(learner.heuristic(self.seen))
            reward, ended = reward + more, ended | ends
        return reward / learner.every, ended, rates


def _calls(options: argparse.Namespace) -> int:
    """Number of parallel calls, half with each codec."""
    return 2 * int(options.calls // 2)


def updates_of(options: argparse.Namespace) -> int:
    """Number of updates for `--episodes` calls: an update has `--windows` decisions."""
    windows = options.episodes * round(options.call_seconds * 1e3 / INTERVAL_MS)
    return max(1, round(windows / options.windows))


def _turns(learner: Learner, options: argparse.Namespace) -> int:
    """Number of the net's decisions per call in an update."""
    return max(2, int(options.windows // _calls(options) // learner.every))


def tensor(array: NDArray[Any]) -> torch.Tensor:
    """The array as a PyTorch tensor of 32-bit floats."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def clone(learner: Learner, options: argparse.Namespace, traces: list[str], target: Any) -> float:
    """Trains the actor on ``target(seen)``, places on the scale of rates; returns the last root mean square error.

    The calls follow the target times slow random factors of up to a half, so that more states are observed.
    """
    calls = Calls(learner, options, traces, 77_000_003 + options.seed)
    draw = np.random.default_rng([options.seed, 0xC104E])
    seen = []
    factor = np.ones(calls.count)
    for step in range(200):
        if step % 10 == 0:
            factor = np.exp(draw.uniform(-0.4, 0.4, calls.count))
        seen.append(calls.seen)
        calls.step(linear(target(calls.seen).astype(np.float64)) * factor)
    device = device_of(learner.actor)
    samples = tensor(np.concatenate(seen)).to(device)
    wanted = tensor(target(np.concatenate(seen))).to(device)
    optimiser = torch.optim.Adam(learner.actor.parameters(), 1e-3)
    error = 1.0
    learner.actor.train()
    for step in range(options.clone):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1.0 - 0.95 * step / options.clone)
        chosen = torch.randint(len(samples), (256,))
        loss = nn.functional.mse_loss(learner.actor(samples[chosen]).squeeze(-1), wanted[chosen])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        error = 0.98 * error + 0.02 * float(loss.detach()) ** 0.5
    return error


def collect(
    learner: Learner, options: argparse.Namespace, calls: Calls, spread: float, usual: float
) -> tuple[tuple[torch.Tensor, ...], dict[str, float]]:
    """Decisions of all calls: observations, critic inputs, actions, log likelihoods, advantages, returns, weights.

    Rewards are relative to the ``usual`` one, so that returns are near zero and the critic has less to learn.
    """
    length = _turns(learner, options)
    device = device_of(learner.actor)
    seen = torch.zeros(length + 1, calls.count, *learner.shape, device=device)
    known = torch.zeros(length + 1, calls.count, PRIVILEGED, device=device)
    actions, likelihoods, rewards, counts = (torch.zeros(length, calls.count, device=device) for _ in range(4))
    ends = torch.zeros(length, calls.count, device=device)
    learner.actor.eval()
    learner.critic.eval()
    differing = 0.0
    for step in range(length):
        seen[step] = tensor(calls.seen)
        known[step, :, : -len(FORESIGHT)] = tensor(privileged(calls.features, calls.codec))
        with torch.no_grad():
            distribution = policy(learner, learner.actor(seen[step]).squeeze(-1), spread)
            actions[step] = distribution.sample()
            likelihoods[step] = distribution.log_prob(actions[step])
        matters = learner.counts(calls.seen)
        heuristic = learner.heuristic(calls.seen)
        reward, ended, rates = calls.turn(learner, actions[step].cpu().numpy().astype(np.float64))
        differing += float((np.abs(rates - heuristic) > 1e-3 * heuristic).mean())
        rewards[step] = tensor(reward - usual)
        # A step in which a call restarts has no effect, so it does not count.
        counts[step] = tensor(matters & ~calls.begun)
        ends[step] = tensor(ended | calls.begun)
        # With several steps per turn, an ended call has restarted within the turn or restarts in the next one.
        calls.begun = ended if learner.every == 1 else np.zeros_like(ended)
    seen[length] = tensor(calls.seen)
    known[length, :, : -len(FORESIGHT)] = tensor(privileged(calls.features, calls.codec))
    known[:, :, -len(FORESIGHT) :] = future_capacities(known[:, :, 0], ends)
    judged = torch.cat([seen.flatten(2), known], -1) if options.critic == "told" else seen
    with torch.no_grad():
        values = learner.critic(judged.flatten(0, 1)).view(length + 1, calls.count)
    advantages = torch.zeros(length, calls.count, device=device)
    advantage = torch.zeros(calls.count, device=device)
    for step in reversed(range(length)):
        going = options.discount * (1.0 - ends[step])
        # A call ends only by its length, so the critic's value of its last state replaces the future reward.
        following = torch.where(ends[step] > 0, values[step], values[step + 1])
        error = rewards[step] + options.discount * following - values[step]
        advantage = error + options.gae_lambda * going * advantage
        advantages[step] = advantage
    kept = (seen[:-1], judged[:-1], actions, likelihoods, advantages, advantages + values[:-1], counts)
    flat = tuple(one.reshape(length * calls.count, *one.shape[2:]) for one in kept)
    return flat, {"reward": float(rewards.mean()) + usual, "learned estimate used": differing / length}


def improve(  # noqa: PLR0913
    *,
    learner: Learner,
    options: argparse.Namespace,
    optimiser: torch.optim.Optimizer,
    samples: tuple[torch.Tensor, ...],
    spread: float,
    actor_too: bool,
) -> float:
    """Clipped steps of PPO; returns the root mean square error of the critic."""
    learner.actor.train()
    learner.critic.train()
    squares, count = 0.0, 0
    moved = 0.0
    nets = [*learner.actor.parameters(), *learner.critic.parameters()]
    for _ in range(options.epochs):
        for part in torch.randperm(len(samples[0])).chunk(options.minibatches):
            seen, judged, actions, likelihoods, advantages, returns, counts = (one[part] for one in samples)
            value = learner.critic(judged).squeeze(-1)
            loss = error = nn.functional.mse_loss(value, returns)
            if actor_too and moved <= options.divergence:
                mean, deviation = advantages.mean(), advantages.std()
                normal = (advantages - mean) / (deviation + 1e-8)
                output = learner.actor(seen).squeeze(-1)
                logarithm = policy(learner, output, spread).log_prob(actions) - likelihoods
                ratio = logarithm.exp()
                moved = float((ratio - 1.0 - logarithm).detach().mean())
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                gain = (torch.min(ratio * normal, clipped * normal) * counts).sum() / counts.sum().clamp(min=1.0)
                loss = 0.5 * error - gain + EXCESS_WEIGHT * learner.excess(seen, output).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(nets, 0.5)
            optimiser.step()
            squares, count = squares + float(error.detach()), count + 1
    return float((squares / max(count, 1)) ** 0.5)


def episodes(learner: Learner, options: argparse.Namespace, test: list[str], learned: bool) -> float:
    """Mean reward of calls on ``test``, with the net's decisions or with the heuristic only."""
    few = argparse.Namespace(**{**vars(options), "calls": 64})
    calls = Calls(learner, few, test, 12_345)
    learner.actor.eval()
    total = 0.0
    turns = 100 // learner.every
    for _ in range(turns):
        if learned:
            with torch.no_grad():
                seen = tensor(calls.seen).to(device_of(learner.actor))
                action = decided(learner, learner.actor(seen).squeeze(-1))
            total += float(calls.turn(learner, action)[0].mean())
        else:
            for _ in range(learner.every):
                total += float(calls.step(learner.heuristic(calls.seen))[0].mean()) / learner.every
    return total / turns


def examples(learner: Learner, options: argparse.Namespace, test: list[str]) -> torch.Tensor:
    """Observations of eight calls after five seconds."""
    calls = Calls(learner, argparse.Namespace(**{**vars(options), "calls": 8}), test, 99)
    for _ in range(25):
        calls.step(learner.heuristic(calls.seen))
    return tensor(calls.seen)


def train(run: Run, options: argparse.Namespace, learner: Learner, target: Any) -> bool:
    """Trains to the end, from a checkpoint if there is one; returns whether it reached the end.

    ``target`` maps observations to the actions that the net clones first; None skips cloning.
    """
    training, test = run.traces()
    smallest = min(map(len, torch.arange(_turns(learner, options) * _calls(options)).chunk(options.minibatches)))
    if smallest < 2:
        message = f"--minibatches {options.minibatches}: --windows {options.windows} gives too few; expected at least 2"
        raise ValueError(f"{message} decisions in each minibatch, found {smallest}")
    if options.critic == "told":
        learner.critic = PrivilegedCritic(int(np.prod(learner.shape)) + PRIVILEGED)
    nets = nn.ModuleDict({"actor": learner.actor, "critic": learner.critic}).to(run.device)
    # The critic has larger errors at first, and is not part of the model.
    first_rates = (options.learning_rate, learner.critic_rate * options.learning_rate)
    groups = [
        {"params": learner.actor.parameters(), "lr": first_rates[0]},
        {"params": learner.critic.parameters(), "lr": first_rates[1]},
    ]
    optimiser = torch.optim.Adam(groups, eps=1e-5)
    first = 0
    state = run.load()
    if state is not None:
        nets.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["updates"]
    elif options.export:
        message = f"{run.folder} has no checkpoint yet"
        raise ValueError(message)
    elif target is not None:
        error = clone(learner, options, training, target)
        run.show(0.0, f"initial policy cloned, error {error:.4f}")
    if options.export:
        return True
    heuristic = episodes(learner, options, test, learned=False)
    calls = None
    for update in range(first, options.updates):
        if calls is None or update % options.round == 0:
            calls = Calls(learner, options, training, 1_000_003 * options.seed + update)
        done = update / options.updates
        for group, rate in zip(optimiser.param_groups, first_rates, strict=True):
            group["lr"] = rate * (1.0 - (1.0 - options.last_rate) * done)
        spread = learner.spread[0] * (learner.spread[1] / learner.spread[0]) ** done
        samples, logged = collect(learner, options, calls, spread, heuristic)
        logged["critic error"] = improve(
            learner=learner,
            options=options,
            optimiser=optimiser,
            samples=samples,
            spread=spread,
            actor_too=update >= options.critic_first,
        )
        run.show((update + 1) / options.updates, f"reward {logged['reward']:.3f}")
        if (update + 1) % options.round == 0 or update + 1 == options.updates:
            logged["gain over the heuristic"] = episodes(learner, options, test, learned=True) - heuristic
            run.log(update + 1, logged)
            run.show((update + 1) / options.updates, ", ".join(f"{name} {value:.4f}" for name, value in logged.items()))
            run.save({"net": nets.state_dict(), "optimiser": optimiser.state_dict(), "updates": update + 1})
            if options.stop_after is not None and update + 1 >= options.stop_after:
                return False
    return True


CURVES = ("reward", "gain over the heuristic", "learned estimate used", "critic error")
"""Curves to draw at the end."""


def finish(run: Run, learner: Learner, options: argparse.Namespace, *, model: nn.Module, **given: Any) -> Path:
    """Writes ``model`` with its card, scores compared with the heuristic, and the curves."""
    _, test = run.traces()
    card = {
        "interval_ms": INTERVAL_MS,
        "trained_on": f"{run.trained_on()}; calls of modelled codecs, functional and conventional",
        **given.pop("card"),
        "curves": run.curves,
    }
    metadata = {"lockstep.interval_ms": str(INTERVAL_MS), "lockstep.seed": str(options.seed), **given.pop("metadata")}
    seen = examples(learner, options, test)[:, : given["shape"][0]]
    path = run.export_judged(
        model, test, card=card, metadata=metadata, examples=seen, references=("bob-heuristic", "gcc"), **given
    )
    run.draw(learner.name, CURVES)
    run.close()
    return path
