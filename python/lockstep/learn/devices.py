"""Where nets are trained: the device that a run is told, and what of a run belongs to a device.

Calls, their features and what is drawn of them are the CPU's on any; so are models that are exported. What a net is
given moves to where the net is, so that one line of a run (``net.to(run.device)``) decides.
"""

import copy
import os

import torch
from torch import nn


def choose(name: str) -> torch.device:
    """The device that ``--device`` names; ``auto`` is a GPU where there is one, and else the CPU.

    Raises:
        ValueError: If PyTorch has none of that name.

    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device(("cuda" if found else "cpu") if name == "auto" else name)
    if device.type != "cuda":
        return device
    if (device.index or 0) >= found:
        has = f"{found or 'no'} CUDA device{'s'[: found != 1]}"
        raise ValueError(f"--device {name}: PyTorch finds {has} here; take cpu, or auto")
    # Without it, cuBLAS may take its sums in another order each time, which deterministic algorithms refuse.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return device


def device_of(net: nn.Module) -> torch.device:
    """Where a net is, and so where what it is given has to be."""
    return next(net.parameters()).device


def on_cpu(net: nn.Module) -> nn.Module:
    """A copy of a net on the CPU, for use and not for training; the net stays where its optimiser has it."""
    return copy.deepcopy(net).cpu().eval()


def random_state(device: torch.device) -> torch.Tensor | None:
    """The state of the device's own random generator; none if that is PyTorch's of the CPU."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def set_random_state(device: torch.device, kept: torch.Tensor | None) -> None:
    """Has the device's own random generator go on from where it was, if one was kept."""
    if device.type == "cuda" and kept is not None:
        torch.cuda.set_rng_state(kept.cpu(), device)
