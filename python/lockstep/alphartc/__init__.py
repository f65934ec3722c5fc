"""What was written for AlphaRTC runs here as it is.

Estimators, a class ``Estimator`` in a file, run in simulated calls: ``lockstep simulate --estimator FILE`` on the
command line, ``lockstep.simulate(estimator=...)`` in Python. Code written to AlphaRTC's gym finds it here as
:class:`Gym`.

A file that fails raises :class:`lockstep.EstimatorError`; an object that answers what is no bandwidth raises
:class:`UnusableError`.
"""

from lockstep.alphartc.estimator import Estimator, PacketStats, exchange
from lockstep.alphartc.gym import Gym, GymEnv
from lockstep.alphartc.worker import UnusableError

__all__ = ["Estimator", "Gym", "GymEnv", "PacketStats", "UnusableError", "exchange"]
