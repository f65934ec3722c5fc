"""Lockstep: real-time video in which codec and transport are one control loop. Calls in virtual time, reports."""

from lockstep._lockstep import EstimatorError, Table, version
from lockstep.simulation import Simulated, simulate

__all__ = ["EstimatorError", "Simulated", "Table", "__version__", "simulate", "version"]

__version__ = version()
