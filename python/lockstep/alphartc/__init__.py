"""Runs code written for AlphaRTC without changes.

An estimator is a class ``Estimator`` in a file. Simulated calls run it: ``lockstep simulate --estimator FILE`` on the
command line, ``lockstep.simulate(estimator=...)`` in Python. :class:`Gym` has the interface of AlphaRTC's gym.

A failing file raises :class:`lockstep.EstimatorError`. An object that returns an invalid bandwidth raises
:class:`UnusableError`.
"""

from lockstep.alphartc.estimator import Estimator, PacketStats, exchange
from lockstep.alphartc.gym import Gym, GymEnv
from lockstep.alphartc.worker import UnusableError

__all__ = ["Estimator", "Gym", "GymEnv", "PacketStats", "UnusableError", "exchange"]
