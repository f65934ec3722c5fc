"""What was written for AlphaRTC runs here as it is.

Estimators, a class ``Estimator`` in a file, run in simulated calls: ``lockstep simulate --estimator FILE`` on the
command line, ``lockstep.simulate(estimator=...)`` in Python. Code written to AlphaRTC's gym finds it here as
:class:`Gym`.
"""

from lockstep.alphartc.estimator import Estimator, PacketStats, exchange
from lockstep.alphartc.gym import Gym, GymEnv

__all__ = ["Estimator", "Gym", "GymEnv", "PacketStats", "exchange"]
