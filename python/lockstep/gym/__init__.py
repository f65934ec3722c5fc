"""Gymnasium environments: an agent controls the bit rate of a call.

``import lockstep.gym`` registers ``lockstep/Call-v0``. An episode is a call over a path drawn at random, with a codec
that is a model (no pixels); a step is one window of feedback, 200 ms unless told otherwise; an action is a bit rate, in
the form that the action preset says. :func:`gymnasium.make_vec` gives the vector environment, which steps thousands of
calls in Rust without the interpreter's lock.

What an agent sees, what it does and what it is rewarded for are objects that can be exchanged; the presets are in
:mod:`lockstep.gym.observations`, :mod:`lockstep.gym.actions` and :mod:`lockstep.gym.rewards`.
"""

import gymnasium

from lockstep.gym.actions import Action, BobAction, LadderAction, LogarithmicRate
from lockstep.gym.environment import CallEnv, CallVectorEnv
from lockstep.gym.features import FEATURES, Features
from lockstep.gym.observations import BobObservation, CallObservation, ConcertoObservation, HrccObservation, Observation
from lockstep.gym.rewards import AlphaRtcReward, HrccReward, QualityReward, Reward

__all__ = [
    "FEATURES",
    "Action",
    "AlphaRtcReward",
    "BobAction",
    "BobObservation",
    "CallEnv",
    "CallObservation",
    "CallVectorEnv",
    "ConcertoObservation",
    "Features",
    "HrccObservation",
    "HrccReward",
    "LadderAction",
    "LogarithmicRate",
    "Observation",
    "QualityReward",
    "Reward",
]

if "lockstep/Call-v0" not in gymnasium.registry:
    gymnasium.register(
        id="lockstep/Call-v0",
        entry_point="lockstep.gym.environment:CallEnv",
        vector_entry_point="lockstep.gym.environment:CallVectorEnv",
    )
