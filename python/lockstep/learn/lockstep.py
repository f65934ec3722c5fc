"""Trains the policy of Lockstep's own controller: PPO, a step a picture, from Sprout onwards.

The controller (``crates/control/src/lockstep.rs``) is Sprout, and a policy that says how much more or less the next frame
may have. What the policy sees and says is made in Rust, the same for training and for calls. Training begins at a policy
that leaves Sprout as it is (residual policy learning; Merlin and Loki clone their heuristic first), and improves what
counts in the end, Concerto's QoE_d: a decibel of SSIM is worth 53 ms of mean video delay.

Read from top to bottom: the paths, the reward, the net, PPO (Schulman et al. 2017, with the details of CleanRL), the test.
"""

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep._lockstep import PictureVectorEnvironment

Array = NDArray[np.float32]


# --- The paths ---------------------------------------------------------------------------------------------------------


def generated_traces(seed: int, count: int) -> list[str]:
    """Specifications of ``count`` generated paths, of every kind and over a wide range of rates."""
    random = np.random.default_rng(seed)
    traces = []
    for index in range(count):
        rate = float(np.exp(random.uniform(np.log(0.15), np.log(12.0))))
        number = int(random.integers(1, 1 << 30))
        kind = index % 8
        if kind < 4:
            traces.append(f"cellular:mean={rate:.3f}mbps,seed={number},duration=120s")
        elif kind == 4:
            traces.append(f"poisson:{rate:.3f}mbps,seed={number},duration=120s")
        elif kind == 5:
            traces.append(f"constant:{rate:.3f}mbps")
        elif kind == 6:
            other = float(np.exp(random.uniform(np.log(0.15), np.log(12.0))))
            first, second = random.uniform(1, 20, 2)
            traces.append(f"steps:{rate:.3f}mbps@{first:.1f}s/{other:.3f}mbps@{second:.1f}s")
        else:
            on, off = random.uniform(0.5, 10), float(np.exp(random.uniform(np.log(0.1), np.log(3.0))))
            traces.append(f"onoff:{rate:.3f}mbps,on={on:.2f}s,off={off:.2f}s")
    return traces


def split(folder: Path, seed: int) -> tuple[list[str], list[str]]:
    """The traces under ``folder``: four of five to train on, and the others to test on, by a hash of their names."""
    train, test = [], []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        number = hashlib.sha256(f"{seed}/{file.relative_to(folder)}".encode()).digest()[0]
        (test if number % 5 == 0 else train).append(str(file))
    return train, test


# --- The reward --------------------------------------------------------------------------------------------------------

DELAY = 1.92
"""What a second of mean video delay takes off QoE_d (Concerto, Table 2)."""
QUALITY = 0.101 * 10 / np.log(10)
"""What it takes off QoE_d if what SSIM lacks to 1 grows, relative to its mean: 0.101 a decibel."""
MEMORY = 1200.0
"""Over how many shown frames the mean of what SSIM lacks to 1 is taken."""


class Reward:
    """QoE_d, picture by picture.

    QoE_d is linear in the mean video delay and in the dB of the mean SSIM, so a frame's part in it is its delay, and what
    its SSIM lacks to 1 over the mean of that over the last forty seconds.
    """

    def __init__(self, count: int) -> None:
        self.shortfall = np.zeros(count)
        self.frames = np.zeros(count)

    def of(self, outcomes: Array, begun: NDArray[np.bool_]) -> Array:
        """The reward of one step; ``begun`` are those that have just begun."""
        over, waited, shown, shortfall, _, weight = outcomes.T.astype(np.float64)
        self.frames[begun] = 0.0
        self.shortfall[begun] = 0.0
        self.frames = np.minimum(self.frames + shown, MEMORY)
        share = np.divide(shown, self.frames, out=np.zeros_like(shown), where=self.frames > 0)
        mean = np.divide(shortfall, shown, out=np.zeros_like(shown), where=shown > 0)
        self.shortfall += share * (mean - self.shortfall)
        relative = np.divide(shortfall, self.shortfall, out=np.zeros_like(shown), where=self.shortfall > 1e-6)
        reward = QUALITY * (shown - relative) - DELAY * weight * waited
        del over
        return np.where(begun, 0.0, np.clip(reward, -20.0, 5.0)).astype(np.float32)


# --- The net -----------------------------------------------------------------------------------------------------------


class Policy(nn.Module):
    """What is seen -> logarithm of the factor, and what is added; and the value, which only training needs."""

    def __init__(self, observed: int, hidden: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.head = nn.Linear(hidden, 2)
        self.value = nn.Sequential(
            nn.Linear(observed, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )
        # At first it leaves Sprout as it is: no factor, and so little added that hardly any trial has some.
        nn.init.zeros_(self.head.weight)
        self.head.bias.data = torch.tensor([0.0, -0.25])
        # How widely trials differ is told, not learned: it shrinks, so that what is best among trials is best without them.
        self.register_buffer("deviation", torch.tensor([0.3, 0.16]))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """The decision without any chance in it."""
        return self.head(self.body(seen))

    def distribution(self, seen: torch.Tensor) -> torch.distributions.Normal:
        """The decisions that training tries."""
        return torch.distributions.Normal(self(seen), self.deviation)


# --- PPO ---------------------------------------------------------------------------------------------------------------


@dataclass
class Options:
    """Everything that training depends on."""

    seed: int = 1
    updates: int = 300
    calls: int = 256
    steps: int = 64
    spread: tuple[float, float] = (1.0, 0.2)
    """How widely trials differ, at first and at last, over what the net begins with."""
    discount: float = 0.99
    trace: float = 0.95
    """Generalised advantage estimation's lambda."""
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 4e-4
    clip: float = 0.2
    picture_steps: int = 900
    """Pictures in an episode."""


def environment(traces: list[str], calls: int, options: Options, seed: int) -> PictureVectorEnvironment:
    """Calls over ``traces`` with paths drawn from a wide range."""
    return PictureVectorEnvironment(
        calls,
        traces,
        seed=seed,
        threads=0,
        sizes=[(640, 360), (1280, 720)],
        frame_rates=[24, 30, 60],
        steps=options.picture_steps,
        delay_ms=(5.0, 100.0),
        queue_packets=(30, 1000),
        loss=(0.0, 0.02),
    )


def train(options: Options, traces: list[str], test: list[str], output: Path, begin: Path | None = None) -> None:
    """Trains, tests now and then, and keeps the best and the last in ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    vector = environment(traces, options.calls, options, options.seed)
    seen, _, _ = vector.look()
    policy = Policy(seen.shape[1])
    optimizer = torch.optim.Adam(policy.parameters(), lr=options.learning_rate, eps=1e-5)
    reward = Reward(options.calls)
    begun = np.ones(options.calls, np.bool_)
    first = 0
    checkpoint = output / "checkpoint.pt"
    if checkpoint.exists():
        kept = torch.load(checkpoint, weights_only=False)
        policy.load_state_dict(kept["policy"])
        optimizer.load_state_dict(kept["optimizer"])
        first = kept["update"]
        print(f"goes on from update {first}")
    elif begin:
        policy.load_state_dict({k: v for k, v in torch.load(begin).items() if k != "log_deviation"}, strict=False)
    best = -np.inf
    rows = []
    length, count = options.steps, options.calls
    began_at = time.monotonic()
    for update in range(first, options.updates):
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * (1 - update / options.updates)
        spread = options.spread[0] * (options.spread[1] / options.spread[0]) ** (update / options.updates)
        policy.deviation.copy_(torch.tensor([0.3, 0.16]) * spread)
        observations = torch.zeros(length, count, seen.shape[1])
        actions = torch.zeros(length, count, 2)
        log_probabilities = torch.zeros(length, count)
        values = torch.zeros(length + 1, count)
        rewards = torch.zeros(length, count)
        ends = torch.zeros(length, count)
        with torch.no_grad():
            for step in range(length):
                observation = torch.from_numpy(np.ascontiguousarray(seen))
                distribution = policy.distribution(observation)
                action = distribution.sample()
                observations[step], actions[step] = observation, action
                log_probabilities[step] = distribution.log_prob(action).sum(-1)
                values[step] = policy.value(observation).squeeze(-1)
                seen, outcomes, done = vector.step(action.numpy())
                rewards[step] = torch.from_numpy(reward.of(outcomes, begun))
                # The step after an end begins anew: what it is decided counts for nothing.
                ends[step] = torch.from_numpy((done | begun).astype(np.float32))
                begun = done.copy()
            values[length] = policy.value(torch.from_numpy(np.ascontiguousarray(seen))).squeeze(-1)
        advantages = torch.zeros_like(rewards)
        advantage = torch.zeros(count)
        for step in reversed(range(length)):
            going = 1.0 - ends[step]
            error = rewards[step] + options.discount * values[step + 1] * going - values[step]
            advantage = error + options.discount * options.trace * going * advantage
            advantages[step] = advantage
        returns = advantages + values[:length]
        flat = [t.reshape(length * count, *t.shape[2:]) for t in (observations, actions, log_probabilities, advantages, returns)]
        for _ in range(options.epochs):
            order = torch.randperm(length * count)
            for part in order.chunk(options.minibatches):
                o, a, old, adv, ret = (t[part] for t in flat)
                distribution = policy.distribution(o)
                ratio = (distribution.log_prob(a).sum(-1) - old).exp()
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                gain = torch.min(ratio * adv, ratio.clamp(1 - options.clip, 1 + options.clip) * adv).mean()
                loss = -gain + 0.5 * nn.functional.smooth_l1_loss(policy.value(o).squeeze(-1), ret)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
        if (update + 1) % 20 == 0 or update + 1 == options.updates:
            scores = evaluate(policy, test, options)
            rows.append({"update": update + 1, "seconds": time.monotonic() - began_at, **scores})
            (output / "scores.json").write_text(json.dumps({"options": asdict(options), "rows": rows}, indent=1))
            torch.save({"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "update": update + 1}, checkpoint)
            if scores["gain"] > best:
                best = scores["gain"]
                torch.save(policy.state_dict(), output / "best.pt")
            print(
                f"{update + 1:4d} {rows[-1]['seconds']:6.0f} s  reward {rewards.mean():7.4f}  spread {spread:.2f}  "
                + "  ".join(f"{name} {value:.4f}" for name, value in scores.items()),
                flush=True,
            )


# --- The test ----------------------------------------------------------------------------------------------------------

_SPROUT: dict[int, NDArray[np.float64]] = {}


def episodes(policy: Policy | None, test: list[str], options: Options, calls: int = 192) -> NDArray[np.float64]:
    """QoE_d of one episode of each of ``calls`` calls; without a policy, of Sprout as it is."""
    vector = environment(test, calls, options, seed=12345)
    seen, _, done = vector.look()
    sums = np.zeros((calls, 6))
    while not done.all():
        with torch.no_grad():
            observation = torch.from_numpy(np.ascontiguousarray(seen))
            decision = torch.zeros(calls, 2) if policy is None else policy(observation)
        seen, outcomes, done = vector.step(decision.numpy())
        sums += outcomes
    over, waited, shown, shortfall, _, weight = sums.T
    weight /= options.picture_steps
    # Where nothing was shown there is no quality.
    quality = -10 * np.log10(np.where(shown > 0, np.maximum(shortfall, 1e-9) / np.maximum(shown, 1), 1.0))
    result: NDArray[np.float64] = 2.67 - DELAY * weight * waited / np.maximum(over, 1) + 0.101 * quality
    return np.stack([result, waited / np.maximum(over, 1) * 1e3, quality, weight])


def evaluate(policy: Policy, test: list[str], options: Options) -> dict[str, float]:
    """How much better than Sprout it does on paths that it was not trained on."""
    if not _SPROUT:
        _SPROUT[0] = episodes(None, test, options)
    before, after = _SPROUT[0], episodes(policy, test, options)
    gain = after[0] - before[0]
    return {
        "gain": float(gain.mean()),
        "worst": float(gain.min()),
        "better": float((gain > 0).mean()),
        "delay_before": float(before[1].mean()),
        "delay_after": float(after[1].mean()),
        "db_before": float(before[2].mean()),
        "db_after": float(after[2].mean()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="lockstep-train-lockstep", description=__doc__.partition(":")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--traces", type=Path, help="a folder of traces, of which four of five are trained on, too")
    parser.add_argument("--begin", type=Path, help="a policy to begin with")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    options = Options(seed=given.seed, updates=given.updates)
    traces, test = generated_traces(given.seed, 200), generated_traces(given.seed + 1_000, 60)
    if given.traces:
        more, other = split(given.traces, 1)
        traces, test = traces + more, test + other
    print(f"{len(traces)} paths to train on, {len(test)} to test on")
    train(options, traces, test, given.output, given.begin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
