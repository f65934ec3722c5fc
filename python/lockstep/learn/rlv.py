"""RL-V: Concerto's state and ladder, learned from a reward (the baseline of the Concerto paper, after Pensieve).

An actor-critic as Pensieve's: the actor says how likely each rate is, the critic how much reward will follow; entropy
keeps the actor trying, less and less. Pensieve's agents run beside each other and send gradients when they have some
(A3C). Here the calls are stepped together and one gradient is made of all (A2C, its synchronous form): the same
estimate without stale gradients, and the same seed gives the same weights.

The reward of a step is ``QualityReward``: the share of the link that was used, less half a point for each 100 ms that
packets waited, less twice the share lost, less a tenth for each place of the ladder that the rate moved (Pensieve's
smoothness).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lockstep.gym import FEATURES, CallVectorEnv
from lockstep.learn.concerto import LADDERS, SHAPE, ConcertoNet, Probabilities
from lockstep.learn.training import Run, add_arguments

_COLUMN = {name: place for place, name in enumerate(FEATURES)}


class ActorCritic(nn.Module):
    """Concerto's net with a second head on what its dense layer makes: the value of a state."""

    def __init__(self, rates: int) -> None:
        """For a ladder of ``rates``."""
        super().__init__()
        self.actor = ConcertoNet(rates)
        self.critic = nn.Linear(256, 1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores ``(calls, rates)`` and values ``(calls,)``."""
        features = self.actor.features(state)
        return self.actor.scores(features), self.critic(features).squeeze(-1)


def environment(options: argparse.Namespace, traces: list[str], codec: str) -> CallVectorEnv:
    """Calls that are stepped together."""
    return CallVectorEnv(
        options.calls // 2,
        observation="concerto",
        action=LADDERS[options.ladder](),
        reward="concerto",
        place="sender",
        traces=traces,
        step_ms=options.interval_ms,
        episode_steps=round(options.call_seconds * 1e3 / options.interval_ms),
        feedback_ms=0.0,
        loss=(0.0, 0.02),
        codec=codec,
        size=(640, 360),
        bounds_bps=(30_000, 20_000_000),
        threads=options.threads,
    )


def update(
    options: argparse.Namespace,
    net: ActorCritic,
    optimiser: torch.optim.Optimizer,
    rollout: dict[str, torch.Tensor],
    entropy_weight: float,
) -> dict[str, float]:
    """One gradient of a rollout ``(steps, calls)``, whose last row of states is that after the last step."""
    steps, calls = rollout["reward"].shape
    scores, values = net(rollout["state"].flatten(0, 1))
    scores, values = scores.view(steps + 1, calls, -1)[:-1], values.view(steps + 1, calls)
    returns = torch.empty_like(rollout["reward"])
    following = values[-1].detach()
    for step in reversed(range(steps)):
        # An episode's end is that of a minute, not of the call: what would follow is worth what the critic says.
        following = rollout["reward"][step] + options.discount * following
        following = torch.where(rollout["ended"][step], values[step].detach(), following)
        returns[step] = following
    counts = (~rollout["ended"]).to(values.dtype)
    advantage = returns - values[:-1]
    log_probability = functional.log_softmax(scores, -1)
    chosen = log_probability.gather(-1, rollout["action"].unsqueeze(-1)).squeeze(-1)
    entropy = -(log_probability.exp() * log_probability).sum(-1)
    normal = advantage.detach()
    normal = (normal - normal.mean()) / (normal.std() + 1e-6)
    actor = -((chosen * normal + entropy_weight * entropy) * counts).sum() / counts.sum()
    critic = (advantage.square() * counts).sum() / counts.sum()
    optimiser.zero_grad()
    (actor + 0.5 * critic).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    return {"critic loss": critic.item(), "entropy": (entropy * counts).sum().item() / counts.sum().item()}


def write_model(run: Run, options: argparse.Namespace, net: ActorCritic, test: list[str]) -> Path:
    """The ONNX file of the actor, its card and its reference."""
    actor = net.actor.cpu().eval()
    env = environment(argparse.Namespace(**{**vars(options), "calls": 8}), test, "functional")
    env.reset(seed=99)
    for _ in range(20):
        state = env.step(np.full(4, 10))[0]
    ladder = LADDERS[options.ladder]().rates_bps
    metadata = {
        "lockstep.ladder_bps": ",".join(str(round(rate)) for rate in ladder),
        "lockstep.interval_ms": str(options.interval_ms),
        "lockstep.decision": "best",
        "lockstep.seed": str(options.seed),
    }
    card = {
        "state": "that of concerto",
        "says": "how likely each rate of the ladder is the best",
        "ladder_bps": [round(rate) for rate in ladder],
        "interval_ms": options.interval_ms,
        "trained_on": f"{run.trained_on()}; calls of modelled codecs, functional and conventional",
    }
    given: dict[str, Any] = {
        "shape": SHAPE,
        "names": ("state", "probabilities"),
        "metadata": metadata,
        "examples": torch.from_numpy(state),
    }
    return run.export_judged(Probabilities(actor), test, card=card, **given)


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    summary = (__doc__ or "").partition("\n")[0]
    made = argparse.ArgumentParser(prog="lockstep train rlv", description=summary)
    add_arguments(made)
    made.add_argument("--interval-ms", type=int, default=200, help="time between two decisions (%(default)s)")
    made.add_argument("--ladder", choices=LADDERS, default="logarithmic", help="the rates (%(default)s)")
    made.add_argument("--updates", type=int, default=2_000, help="gradients (%(default)s)")
    made.add_argument(
        "--calls", type=int, default=16, help="calls that are stepped together, half a codec (%(default)s)"
    )
    made.add_argument("--steps", type=int, default=8, help="steps of a rollout (%(default)s)")
    made.add_argument("--call-seconds", type=float, default=30.0, help="length of a call (%(default)s)")
    made.add_argument("--discount", type=float, default=0.95, help="of what follows a step (%(default)s)")
    made.add_argument("--learning-rate", type=float, default=3e-4, help="Adam's, falling to nothing (%(default)s)")
    made.add_argument(
        "--entropy", type=float, default=0.05, help="weight of the entropy, falling to 0.002 (%(default)s)"
    )
    made.add_argument("--stop-after", type=int, default=None, help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:  # noqa: PLR0915 -- to be read from top to bottom
    """Trains; gives the exit status."""
    options = parser().parse_args(arguments)
    run = Run("rlv", options)
    options = run.options(options)
    training, test = run.traces()
    net = ActorCritic(len(LADDERS[options.ladder]().rates_bps)).to(run.device)
    optimiser = torch.optim.Adam(net.parameters(), options.learning_rate)
    first = 0
    kept = run.load()
    if kept is not None:
        net.load_state_dict(kept["net"])
        optimiser.load_state_dict(kept["optimiser"])
        first = kept["update"]
    if options.export:
        if kept is None:
            raise ValueError(f"{run.folder} has no checkpoint yet")
        print(write_model(run, options, net, test))
        return 0
    half, every = options.calls // 2, max(1, options.updates // 20)
    envs = [environment(options, training, codec) for codec in ("functional", "conventional")]
    state, ended, previous, recent = np.empty(0), np.empty(0, np.bool_), np.empty(0, np.int64), []
    for number in range(first, options.updates):
        if number % every == 0:
            # Calls begin anew where checkpoints are, so that a run that goes on sees the calls that it would have seen.
            seed = 1_000_003 * options.seed + number
            state = np.concatenate([env.reset(seed=seed + place)[0] for place, env in enumerate(envs)])
            ended, previous = np.zeros(options.calls, np.bool_), np.full(options.calls, -1)
        left = 1.0 - number / options.updates
        for group in optimiser.param_groups:
            group["lr"] = options.learning_rate * left
        rows: dict[str, list[torch.Tensor]] = {"state": [], "action": [], "reward": [], "ended": []}
        for _ in range(options.steps):
            seen = torch.from_numpy(state).to(run.device)
            with torch.no_grad():
                choice = torch.distributions.Categorical(logits=net.actor(seen)).sample().cpu().numpy()
            stepped = [env.step(choice[place * half : (place + 1) * half]) for place, env in enumerate(envs)]
            moved = np.where(previous < 0, 0, np.abs(choice - previous))
            reward = np.concatenate([step[1] for step in stepped]) - 0.1 * moved
            rows["state"].append(seen)
            rows["action"].append(torch.from_numpy(choice))
            rows["reward"].append(torch.from_numpy(reward.astype(np.float32)))
            rows["ended"].append(torch.from_numpy(ended.copy()))
            previous = np.where(ended, -1, choice)
            recent.append(float(reward[~ended].mean()) if not ended.all() else 0.0)
            state = np.concatenate([step[0] for step in stepped])
            ended = np.concatenate([step[3] for step in stepped])
        rows["state"].append(torch.from_numpy(state).to(run.device))
        rollout = {name: torch.stack(values).to(run.device) for name, values in rows.items()}
        logged = update(options, net, optimiser, rollout, 0.002 + (options.entropy - 0.002) * left)
        if (number + 1) % every == 0 or number + 1 == options.updates:
            run.log(number + 1, {"reward": float(np.mean(recent)), **logged})
            run.show((number + 1) / options.updates, f"reward {np.mean(recent):.3f}")
            recent = []
            run.save({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "update": number + 1})
            if options.stop_after is not None and number + 1 >= options.stop_after:
                return 0
    path = write_model(run, options, net, test)
    run.draw("RL-V", ("reward", "critic loss", "entropy"))
    run.close()
    print(path)
    return 0
