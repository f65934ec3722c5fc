"""Gymnasium environments: an agent controls the bit rate of a call.

``import lockstep.gym`` registers ``lockstep/Call-v0``. An episode is a call over a randomly drawn path with a codec
model (no pixels). A step is one window of feedback, by default 200 ms. An action is a bit rate in the form of the
action preset. :func:`gymnasium.make_vec` creates the vector environment. It steps thousands of calls in Rust without
the interpreter's lock.

Observation, action and reward are exchangeable objects. The presets are in :mod:`lockstep.gym.observations`,
:mod:`lockstep.gym.actions` and :mod:`lockstep.gym.rewards`.
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
