"""Lockstep: real-time video in which codec and transport are one control loop. Reports and analysis of calls."""

from lockstep._lockstep import version

__all__ = ["__version__", "version"]

__version__ = version()
