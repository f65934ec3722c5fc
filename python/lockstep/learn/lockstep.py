"""Trains the policy of Lockstep's own controller: PPO, a step a picture, from Sprout onwards.

The controller (``crates/control/src/learned/lockstep.rs``) is Sprout, and a policy that says how much more or less the
next frame may have. What the policy sees and says is made in Rust, the same for training and for calls. Training begins
at a policy that leaves Sprout as it is (residual policy learning; Merlin and Loki clone their heuristic first), and
improves what counts in the end, Concerto's QoE_d: a decibel of SSIM is worth 53 ms of mean video delay.

Read from top to bottom: the reward, the net, the calls, PPO (Schulman et al. 2017, with the details of CleanRL), the
test. The calls begin anew with every round, so that a run that was ended goes on to the same weights.
"""

import argparse
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep._lockstep import PictureVectorEnvironment
from lockstep.learn.training import Run, add_arguments

Array = NDArray[np.float32]
Samples = tuple[torch.Tensor, ...]


# --- The reward -----------------------------------------------------------------------------------------------------

DELAY = 1.92
"""What a second of mean video delay takes off QoE_d (Concerto, Table 2)."""
QUALITY = 0.101 * 10 / np.log(10)
"""What it takes off QoE_d if what SSIM lacks to 1 grows, relative to its mean: 0.101 a decibel."""
MEMORY = 1200.0
"""Over how many shown frames the mean of what SSIM lacks to 1 is taken."""


class Reward:
    """QoE_d, picture by picture.

    QoE_d is linear in the mean video delay and in the dB of the mean SSIM, so a frame's part in it is its delay, and
    what its SSIM lacks to 1 over the mean of that over the last forty seconds.
    """

    def __init__(self, count: int) -> None:
        """For ``count`` calls that have just begun."""
        self.shortfall = np.zeros(count)
        self.frames = np.zeros(count)

    def of(self, outcomes: Array, begun: NDArray[np.bool_]) -> Array:
        """The reward of one step; ``begun`` are those that have just begun."""
        _, waited, shown, shortfall, _, weight = outcomes.T.astype(np.float64)
        self.frames[begun] = 0.0
        self.shortfall[begun] = 0.0
        self.frames = np.minimum(self.frames + shown, MEMORY)
        share = np.divide(shown, self.frames, out=np.zeros_like(shown), where=self.frames > 0)
        mean = np.divide(shortfall, shown, out=np.zeros_like(shown), where=shown > 0)
        self.shortfall += share * (mean - self.shortfall)
        relative = np.divide(shortfall, self.shortfall, out=np.zeros_like(shown), where=self.shortfall > 1e-6)
        reward = QUALITY * (shown - relative) - DELAY * weight * waited
        return np.where(begun, 0.0, np.clip(reward, -20.0, 5.0)).astype(np.float32)


# --- The net --------------------------------------------------------------------------------------------------------


SPREAD = (0.3, 0.16)
"""How widely trials differ at first: the factor's logarithm, and what is added."""


class Policy(nn.Module):
    """What is seen -> logarithm of the factor, and what is added; and the value, which only training needs."""

    def __init__(self, observed: int, hidden: int = 64) -> None:
        """A policy that leaves Sprout as it is."""
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.head = nn.Linear(hidden, 2)
        self.value = nn.Sequential(
            nn.Linear(observed, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )
        # At first it leaves Sprout as it is: no factor, and so little added that hardly any trial has some.
        nn.init.zeros_(self.head.weight)
        self.head.bias.data = torch.tensor([0.0, -0.25])
        # How widely trials differ is told, not learned.
        self.deviation = torch.tensor(SPREAD)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """The decision without any chance in it."""
        decision: torch.Tensor = self.head(self.body(seen))
        return decision

    def distribution(self, seen: torch.Tensor) -> torch.distributions.Normal:
        """The decisions that training tries."""
        return torch.distributions.Normal(self(seen), self.deviation)


# --- The calls ------------------------------------------------------------------------------------------------------


def environment(options: argparse.Namespace, traces: list[str], calls: int, seed: int) -> PictureVectorEnvironment:
    """Calls over ``traces``, with all else drawn from a wide range."""
    return PictureVectorEnvironment(
        calls,
        traces,
        seed=seed,
        threads=options.threads,
        sizes=[(640, 360), (1280, 720)],
        frame_rates=[24, 30, 60],
        steps=options.pictures,
        delay_ms=(5.0, 100.0),
        queue_packets=(30, 1000),
        loss=(0.0, 0.02),
    )


def tensor(array: Array) -> torch.Tensor:
    """The same numbers for PyTorch."""
    return torch.from_numpy(np.ascontiguousarray(array))


# --- PPO ------------------------------------------------------------------------------------------------------------


class Calls:
    """The calls of a round, which go on from update to update."""

    def __init__(self, options: argparse.Namespace, traces: list[str], seed: int) -> None:
        """Calls that begin."""
        self.options = options
        self.vector = environment(options, traces, options.calls, seed)
        self.seen, _, _ = self.vector.look()
        self.reward = Reward(options.calls)
        self.begun = np.ones(options.calls, np.bool_)

    def collect(self, policy: Policy) -> tuple[Samples, float]:
        """Steps of all calls: what was seen, tried, how likely that was, advantages, returns; and the mean reward."""
        length, count = self.options.steps, self.options.calls
        seen = torch.zeros(length, count, self.seen.shape[1])
        actions = torch.zeros(length, count, 2)
        likelihoods, rewards, ends = (torch.zeros(length, count) for _ in range(3))
        values = torch.zeros(length + 1, count)
        with torch.no_grad():
            for step in range(length):
                seen[step] = tensor(self.seen)
                distribution = policy.distribution(seen[step])
                actions[step] = distribution.sample()
                likelihoods[step] = distribution.log_prob(actions[step]).sum(-1)
                values[step] = policy.value(seen[step]).squeeze(-1)
                self.seen, outcomes, done = self.vector.step(actions[step].numpy())
                rewards[step] = tensor(self.reward.of(outcomes, self.begun))
                # The step after an end begins anew: what it is decided counts for nothing.
                ends[step] = tensor((done | self.begun).astype(np.float32))
                self.begun = done.copy()
            values[length] = policy.value(tensor(self.seen)).squeeze(-1)
        advantages = torch.zeros(length, count)
        advantage = torch.zeros(count)
        for step in reversed(range(length)):
            going = self.options.discount * (1.0 - ends[step])
            error = rewards[step] + going * values[step + 1] - values[step]
            advantage = error + self.options.trace * going * advantage
            advantages[step] = advantage
        kept = (seen, actions, likelihoods, advantages, advantages + values[:length])
        return tuple(one.reshape(length * count, *one.shape[2:]) for one in kept), float(rewards.mean())


def improve(options: argparse.Namespace, policy: Policy, optimiser: torch.optim.Optimizer, samples: Samples) -> None:
    """PPO's clipped steps."""
    for _ in range(options.epochs):
        for part in torch.randperm(len(samples[0])).chunk(options.minibatches):
            seen, actions, likelihoods, advantages, returns = (one[part] for one in samples)
            ratio = (policy.distribution(seen).log_prob(actions).sum(-1) - likelihoods).exp()
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
            gain = torch.min(ratio * advantages, clipped * advantages).mean()
            loss = 0.5 * nn.functional.smooth_l1_loss(policy.value(seen).squeeze(-1), returns) - gain
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimiser.step()


# --- The test -------------------------------------------------------------------------------------------------------


def episodes(options: argparse.Namespace, policy: Policy | None, test: list[str]) -> NDArray[np.float64]:
    """QoE_d, mean video delay (ms) and SSIM (dB) of an episode of each of many calls; without a policy, of Sprout."""
    calls = options.test_calls
    vector = environment(options, test, calls, 12_345)
    seen, _, done = vector.look()
    sums = np.zeros((calls, 6))
    while not done.all():
        with torch.no_grad():
            decision = torch.zeros(calls, 2) if policy is None else policy(tensor(seen))
        seen, outcomes, done = vector.step(decision.numpy())
        sums += outcomes
    over, waited, shown, shortfall, _, weight = sums.T
    mean = waited / np.maximum(over, 1)
    # Where nothing was shown there is no quality.
    quality = -10 * np.log10(np.where(shown > 0, np.maximum(shortfall, 1e-9) / np.maximum(shown, 1), 1.0))
    return np.stack([2.67 - DELAY * weight / options.pictures * mean + 0.101 * quality, mean * 1e3, quality])


def compare(before: NDArray[np.float64], after: NDArray[np.float64]) -> dict[str, float]:
    """How much better than Sprout it does on paths that it was not trained on; the median call, and the worst."""
    gain = after[0] - before[0]
    return {
        "gain in QoE_d": float(gain.mean()),
        "median gain": float(np.median(gain)),
        "worst gain": float(gain.min()),
        "mean delay, of Sprout's": float(after[1].mean() / before[1].mean()),
        "SSIM (dB), above Sprout's": float((after[2] - before[2]).mean()),
    }


def write_model(run: Run, options: argparse.Namespace, policy: Policy, test: list[str]) -> None:
    """Writes the policy as ONNX, with its card."""
    card = {
        "state": PictureVectorEnvironment.observations(),
        "says": "logarithm of the factor on what Sprout allows; what is added, frame intervals at the mean rate",
        "interval_ms": "a picture",
        "trained_on": run.trained_on(),
        "curves": run.curves,
    }
    examples = tensor(examples_of(options, test))
    given: dict[str, Any] = {"shape": (examples.shape[1],), "names": ("seen", "decision"), "metadata": {}}
    print(run.export_judged(policy, test, card=card, examples=examples, **given))


def examples_of(options: argparse.Namespace, test: list[str]) -> Array:
    """What eight calls see after two seconds."""
    vector = environment(options, test, 8, 1)
    seen, _, _ = vector.look()
    for _ in range(60):
        seen, _, _ = vector.step(np.zeros((8, 2), np.float32))
    return seen


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="lockstep train lockstep", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made)
    made.add_argument("--updates", type=int, default=120, help="updates of PPO (%(default)s)")
    made.add_argument("--calls", type=int, default=256, help="calls at a time (%(default)s)")
    made.add_argument("--steps", type=int, default=64, help="pictures of each call for an update (%(default)s)")
    made.add_argument("--discount", type=float, default=0.99, help="from picture to picture (%(default)s)")
    made.add_argument("--trace", type=float, default=0.95, help="generalised advantages' lambda (%(default)s)")
    made.add_argument("--epochs", type=int, default=4, help="times that samples are gone through (%(default)s)")
    made.add_argument("--minibatches", type=int, default=8, help="parts of the samples (%(default)s)")
    made.add_argument("--learning-rate", type=float, default=4e-4, help="Adam's, falling to none (%(default)s)")
    made.add_argument("--clip", type=float, default=0.2, help="PPO's clip (%(default)s)")
    made.add_argument("--pictures", type=int, default=900, help="pictures in an episode (%(default)s)")
    made.add_argument("--round", type=int, default=20, help="updates between checkpoints (%(default)s)")
    made.add_argument("--test-calls", type=int, default=192, help="calls of a test (%(default)s)")
    made.add_argument("--stop-after", type=int, default=None, help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Trains; gives the exit status."""
    options = parser().parse_args(arguments)
    run = Run("lockstep", options)
    options = run.options(options)
    training, test = run.traces()
    policy = Policy(len(PictureVectorEnvironment.observations()))
    optimiser = torch.optim.Adam(policy.parameters(), options.learning_rate, eps=1e-5)
    first = 0
    state = run.load()
    if state is not None:
        policy.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["updates"]
    elif options.export:
        message = f"{run.folder} has no checkpoint yet"
        raise ValueError(message)
    if not options.export:
        sprout = episodes(options, None, test)
        for update in range(first, options.updates):
            if update % options.round == 0 or update == first:
                calls = Calls(options, training, 1_000_003 * options.seed + update)
            done = update / options.updates
            for group in optimiser.param_groups:
                group["lr"] = options.learning_rate * (1 - done)
            # What is best among trials is to be best without them: they shrink to a fifth.
            policy.deviation = torch.tensor(SPREAD) * 0.2**done
            samples, reward = calls.collect(policy)
            improve(options, policy, optimiser, samples)
            run.show((update + 1) / options.updates, f"reward {reward:.3f}")
            if (update + 1) % options.round == 0 or update + 1 == options.updates:
                outcome = compare(sprout, episodes(options, policy, test))
                run.log(update + 1, {"reward": reward, **outcome})
                kept = {"net": policy.state_dict(), "optimiser": optimiser.state_dict()}
                run.save({**kept, "updates": update + 1})
                if options.stop_after is not None and update + 1 >= options.stop_after:
                    return 0
    write_model(run, options, policy, test)
    run.draw("Lockstep", ("reward", "gain in QoE_d", "median gain", "worst gain"))
    run.close()
    return 0
