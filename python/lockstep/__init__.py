"""Lockstep: real-time video with codec and transport in one control loop.

The package runs live calls and calls in virtual time, and reports on them. The Rust extension runs the calls. Python
loads it on first use, so reports and plots work without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockstep.distribution import imported, installed_version

if TYPE_CHECKING:
    from lockstep._lockstep import (
        CallError,
        EstimatorError,
        Frame,
        Table,
        barcode_regions,
        freezes,
        read_barcode,
        read_barcode_regions,
        ssim,
        text_ssim,
        version,
    )
    from lockstep.call import (
        Call,
        Degraded,
        Ended,
        Event,
        Events,
        Fresh,
        Interrupted,
        Joined,
        Message,
        PathChanged,
        PeerChanged,
        Quality,
        ReceivingQuality,
        Resumed,
        SendingQuality,
        Stale,
        StreamAnnounced,
    )
    from lockstep.controllers import Allowance, Controller, serve
    from lockstep.policy import from_policy
    from lockstep.simulation import Simulated, simulate

__all__ = [
    "Allowance",
    "Call",
    "CallError",
    "Controller",
    "Degraded",
    "Ended",
    "EstimatorError",
    "Event",
    "Events",
    "Frame",
    "Fresh",
    "Interrupted",
    "Joined",
    "Message",
    "PathChanged",
    "PeerChanged",
    "Quality",
    "ReceivingQuality",
    "Resumed",
    "SendingQuality",
    "Simulated",
    "Stale",
    "StreamAnnounced",
    "Table",
    "__version__",
    "barcode_regions",
    "freezes",
    "from_policy",
    "read_barcode",
    "read_barcode_regions",
    "serve",
    "simulate",
    "ssim",
    "text_ssim",
    "version",
]

__version__ = installed_version()

_HOMES = {
    "CallError": "lockstep._lockstep",
    "EstimatorError": "lockstep._lockstep",
    "Frame": "lockstep._lockstep",
    "Table": "lockstep._lockstep",
    "barcode_regions": "lockstep._lockstep",
    "freezes": "lockstep._lockstep",
    "read_barcode": "lockstep._lockstep",
    "read_barcode_regions": "lockstep._lockstep",
    "ssim": "lockstep._lockstep",
    "text_ssim": "lockstep._lockstep",
    "version": "lockstep._lockstep",
    "Allowance": "lockstep.controllers",
    "Controller": "lockstep.controllers",
    "serve": "lockstep.controllers",
    "from_policy": "lockstep.policy",
    "Call": "lockstep.call",
    "Degraded": "lockstep.call",
    "Ended": "lockstep.call",
    "Event": "lockstep.call",
    "Events": "lockstep.call",
    "Fresh": "lockstep.call",
    "Interrupted": "lockstep.call",
    "Joined": "lockstep.call",
    "Message": "lockstep.call",
    "PathChanged": "lockstep.call",
    "PeerChanged": "lockstep.call",
    "Quality": "lockstep.call",
    "ReceivingQuality": "lockstep.call",
    "Resumed": "lockstep.call",
    "SendingQuality": "lockstep.call",
    "Stale": "lockstep.call",
    "StreamAnnounced": "lockstep.call",
    "Simulated": "lockstep.simulation",
    "simulate": "lockstep.simulation",
}
"""Module of each name that is loaded on first use."""
_EXTRAS = {"lockstep.controllers": "lab", "lockstep.policy": "gym"}
"""Extra that each of these modules requires."""


if not TYPE_CHECKING:  # type checkers would accept any name otherwise

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        home = _HOMES[name]
        extra = _EXTRAS.get(home)
        module = import_module(home) if extra is None else imported(home, f"lockstep.{name}", extra)
        value = getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
