"""Reinforces Lockstep's own controller, a step a picture: when to depart from its rule, and by how much.

The net has learned by imitation what the path will take, and a rule makes frames of that (``lockstep.py``,
``rule.py``). Here it learns to say two numbers more of each picture: half of what is added to the log odds of the
rule's quantile, and twice the logarithm of what its deadline is multiplied by
(``crates/control/src/learned/lockstep/adjustment.rs``). PPO (Schulman et al. 2017) in modelled calls at the sender, in
which the controller runs as it does in all calls, with the codec that fits frames to budgets and with loss recovery.
The simulator draws what is tried, the same for some pictures in turn (``crates/sim/src/environment/trials.rs``), so
that whole calls pass without Python.

What a picture is rewarded with is what it adds to QoE_d (Concerto's, with weight on delay): the SSIM of what is shown,
and the delays of all pictures that were waited for until then. The critic is told what the path took from then on,
which no decision changes (as in ``ppo.py``): what was luck is not credited to what was tried.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep._lockstep import lesson_names
from lockstep.learn.ppo import ToldCritic
from lockstep.learn.rule import DELAY

HORIZON_COUNT = len(lesson_names()[1])
QUALITY = 0.101
"""What a decibel of SSIM adds to QoE_d (``QOE_D`` of ``crates/call/src/scores``)."""
MOST_DELAY = 1.0
"""Seconds of delay that a picture is charged at most: what nobody could have known must not decide everything."""
AHEAD = (5, 15, 30, 60)
"""So many pictures later, too, the critic is told what the path took from then on."""
MOST_GAIN = 5.0
"""So many times the mean of all an advantage counts at most."""
CLIP, EPOCHS, PARTS = 0.2, 4, 16
"""PPO's clipped ratio, passes over each update's calls, and steps in each."""
CRITIC_RATE, CRITIC_FIRST = 1e-3, 4
"""The critic's learning rate, and so many updates are its alone."""
SPREAD = (0.5, 0.25)
"""How widely trials differ at first and at last: standard deviations of both numbers."""
LOOK = 5
"""After so many updates it is looked what they have brought."""
SHOWN_BEFORE = 2
"""Of the frame that was shown before a picture the critic is told so much: its SSIM and its delay."""
DISCOUNT, GAE_LAMBDA = 0.985, 0.97
"""Of what follows a picture: a second of thirty is worth two thirds. And generalised advantages' lambda."""

Array = NDArray[np.float32]


class Tried:
    """Pictures of calls, [calls, pictures, ...], and what came of them."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        """From what ``LessonSetting.try_out`` gives."""
        seen, right, remembered, tried, outcomes = (torch.from_numpy(array) for array in arrays)
        self.known = ~torch.isnan(outcomes[..., 0])
        clean = torch.nan_to_num
        self.seen, self.right, self.remembered, self.tried = clean(seen), clean(right), clean(remembered), clean(tried)
        decides, self.shown_for, ssim_db, delay = clean(outcomes).unbind(-1)
        # What is held for some pictures was decided on with the first of them.
        begins = torch.ones_like(self.known)
        begins[:, 1:] = (self.tried[:, 1:] != self.tried[:, :-1]).any(-1)
        self.counts = self.known & (decides > 0) & begins
        # Of the frame that was shown last before each picture: what is seen does not tell, and it lasts.
        each = torch.stack([ssim_db / 10.0, delay], -1) / self.shown_for.clamp(min=1.0).unsqueeze(-1)
        self.shown_before = torch.zeros_like(each)
        for place in range(1, each.shape[1]):
            shown = (self.shown_for[:, place - 1] > 0).unsqueeze(-1)
            self.shown_before[:, place] = torch.where(shown, each[:, place - 1], self.shown_before[:, place - 1])
        self.reward = QUALITY * ssim_db - DELAY * torch.minimum(delay, MOST_DELAY * self.shown_for)

    def to(self, device: torch.device) -> None:
        """Takes all of it there."""
        for name, value in vars(self).items():
            setattr(self, name, value.to(device))

    def mean_reward(self) -> float:
        """What a picture that was captured is worth in the mean of the calls, QoE_d less its constant."""
        pictures = self.shown_for.sum(-1)
        whole = pictures > 0
        return float((self.reward.sum(-1)[whole] / pictures[whole]).mean())

    def told(self) -> torch.Tensor:
        """What the path took from each picture on, and from some of the later ones on, and what was shown before."""
        later = [torch.roll(self.right, -ahead, 1) for ahead in AHEAD]
        for part, ahead in zip(later, AHEAD, strict=True):
            part[:, -ahead:] = 0.0
        return torch.cat([self.right, *later, self.shown_before], -1)


def advantages(tried: Tried, values: torch.Tensor, usual: float) -> torch.Tensor:
    """Generalised advantages of each picture; rewards count from the ``usual`` one on."""
    reward = tried.reward - usual * tried.shown_for
    found = torch.zeros_like(reward)
    advantage = torch.zeros_like(reward[:, 0])
    for place in reversed(range(reward.shape[1])):
        last = place + 1 == reward.shape[1]
        goes_on = torch.zeros_like(advantage) if last else tried.known[:, place + 1].float()
        # A call ends by its length alone: what would have followed is worth what the critic says of its last picture.
        following = values[:, place] if last else torch.where(goes_on > 0, values[:, place + 1], values[:, place])
        error = reward[:, place] + DISCOUNT * following - values[:, place]
        advantage = (error + DISCOUNT * GAE_LAMBDA * goes_on * advantage) * tried.known[:, place]
        found[:, place] = advantage
    return found


class Adjusting(Protocol):
    """The net of ``lockstep.py``, as far as it matters here."""

    mean: torch.Tensor
    scale: torch.Tensor
    policy: nn.Sequential | None
    """What is remembered, and what is seen -> by how much the rule is departed from."""

    def add_policy(self) -> nn.Sequential:
        """From now on there is one."""
        ...


class Reinforcement:
    """The policy of a net, its critic, and what they learn by."""

    def __init__(self, net: Adjusting, learning_rate: float, state: Mapping[str, Any] | None = None) -> None:
        """Begins, or goes on from what :meth:`state` gave."""
        self.net = net
        self.policy = net.policy if net.policy is not None else net.add_policy()
        device = net.mean.device
        self.policy.to(device)
        told = HORIZON_COUNT * (1 + len(AHEAD)) + SHOWN_BEFORE
        first = self.policy[0]
        self.critic = ToldCritic(int(first.in_features) + told).to(device)
        groups = [
            {"params": self.policy.parameters(), "lr": learning_rate},
            {"params": self.critic.parameters(), "lr": CRITIC_RATE},
        ]
        self.optimiser = torch.optim.Adam(groups, eps=1e-5)
        if state is not None:
            self.critic.load_state_dict(state["critic"])
            self.optimiser.load_state_dict(state["optimiser"])

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the net's weights."""
        return {"critic": self.critic.state_dict(), "optimiser": self.optimiser.state_dict()}

    def inputs(self, tried: Tried) -> torch.Tensor:
        """What the policy sees of each picture."""
        seen = (tried.seen - self.net.mean) * self.net.scale
        return torch.cat([tried.remembered, seen], -1)

    def improve(self, tried: Tried, spread: float, *, policy_too: bool) -> dict[str, float]:
        """PPO's clipped steps."""
        tried.to(self.net.mean.device)
        inputs = self.inputs(tried)
        judged = torch.cat([inputs, tried.told()], -1).clamp(-10.0, 10.0)
        usual = tried.mean_reward()
        with torch.no_grad():
            values = self.critic(judged).squeeze(-1)
            said = self.policy(inputs)
        gained = advantages(tried, values, usual)
        returns = gained + values
        before = torch.distributions.Normal(0.0, spread).log_prob(tried.tried).sum(-1)
        actions = said + tried.tried
        chosen = tried.known
        flat = [one[chosen] for one in (inputs, judged, actions, before, gained, returns, tried.counts.float())]
        squares, moved, steps = 0.0, 0.0, 0
        for _ in range(EPOCHS):
            for part in torch.randperm(len(flat[0])).chunk(PARTS):
                given, judging, action, likelihood, gain, worth, counts = (one[part] for one in flat)
                error = nn.functional.smooth_l1_loss(self.critic(judging).squeeze(-1), worth)
                loss = error
                if policy_too:
                    normal = (gain / (gain.abs().mean() + 1e-8)).clamp(-MOST_GAIN, MOST_GAIN)
                    middle = self.policy(given)
                    ratio = (torch.distributions.Normal(middle, spread).log_prob(action).sum(-1) - likelihood).exp()
                    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                    better = torch.min(ratio * normal, clipped * normal)
                    loss = error - (better * counts).sum() / counts.sum().clamp(min=1.0)
                    moved = float((ratio.detach() - 1.0).abs().mean())
                self.optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
                self.optimiser.step()
                squares, steps = squares + float(error.detach()), steps + 1
        explained = 1.0 - float(((returns - values)[chosen]).var() / returns[chosen].var().clamp(min=1e-9))
        return {
            "reward": usual,
            "critic error": (squares / steps) ** 0.5,
            "explained": explained,
            "moved": moved,
            "said, level": float(said[..., 0][chosen].mean()),
            "said, level, deviation": float(said[..., 0][chosen].std()),
            "said, deadline": float(said[..., 1][chosen].mean()),
            "said, deadline, deviation": float(said[..., 1][chosen].std()),
        }
