"""Device of a training, and the parts of a run that depend on it.

Calls, their features and random draws from them are on the CPU in any case; so are exported models. Inputs move to the
net's device, so that one line of a run (``net.to(run.device)``) decides.
"""

import copy
import os

import torch
from torch import nn


def choose(name: str) -> torch.device:
    """The device of ``--device``; ``auto`` is a GPU if there is one, and the CPU otherwise.

    Raises:
        ValueError: If PyTorch does not find the device.

    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device(("cuda" if found else "cpu") if name == "auto" else name)
    if device.type != "cuda":
        return device
    if (device.index or 0) >= found:
        has = f"{found or 'no'} CUDA device{'s'[: found != 1]}"
        raise ValueError(f"--device {name}: PyTorch finds {has} here; use cpu or auto")
    # Without it, cuBLAS may sum in a varying order, which deterministic algorithms refuse.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return device


def device_of(net: nn.Module) -> torch.device:
    """The device of a net, and of its inputs."""
    return next(net.parameters()).device


def on_cpu(net: nn.Module) -> nn.Module:
    """A copy of a net on the CPU for evaluation; the net itself stays on its device."""
    return copy.deepcopy(net).cpu().eval()


def random_state(device: torch.device) -> torch.Tensor | None:
    """The state of the device's own random generator; None for the CPU, whose generator is PyTorch's."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def set_random_state(device: torch.device, kept: torch.Tensor | None) -> None:
    """Restores the state of the device's own random generator, if there is one."""
    if device.type == "cuda" and kept is not None:
        torch.cuda.set_rng_state(kept.cpu(), device)
