"""A stub device: tensors on ``cuda`` stay in memory but must not meet tensors of the CPU.

So a machine without a GPU can run a training as on a GPU. The numbers are those of the CPU. A tensor on the
wrong device raises PyTorch's error.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

AWAY = torch.device("cuda", 0)
_TENSOR: Any = torch.Tensor
_MEET = {"copy_", "__setitem__", "__getitem__", "__get__", "__set__", "_has_compatible_shallow_copy_type"}
"""Functions that accept tensors of both devices: copies between them, and indices on the CPU."""


_AWAY: Any = WeakTensorKeyDictionary()
"""Tensors on the device. The mark is outside the tensors, so that saved files do not contain it."""


def away(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the stub device."""
    return bool(_AWAY.get(tensor, False))


def _marked(result: Any, mark: bool) -> Any:
    for one in tree_flatten(result)[0]:
        if isinstance(one, torch.Tensor):
            _AWAY[one] = mark
    return result


class StubDevice(TorchFunctionMode):
    """While this mode is active, the stub device exists."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0

    def __torch_function__(self, function: Any, _types: Any, given: Any = (), named: Any = None) -> Any:
        named = named or {}
        name = getattr(function, "__name__", "")
        tensors = [one for one in tree_flatten((given, named))[0] if isinstance(one, torch.Tensor)]
        if function == _TENSOR.device.__get__:
            return AWAY if away(given[0]) else torch.device("cpu")
        if function == _TENSOR.grad.__get__:
            grad = function(*given)
            return grad if grad is None else _marked(grad, away(given[0]))
        if function == _TENSOR.data.__set__:
            function(*given)
            return _marked(given[0], away(given[1]))
        if name == "__get__":
            result = function(*given, **named)
            return _marked(result, away(given[0])) if isinstance(result, torch.Tensor) else result
        if name in ("device", "_parse_to"):
            return function(*given, **named)
        if name in ("to", "cpu"):
            return self._move(name, given, named)
        devices = [one for one in tree_flatten((given, named))[0] if isinstance(one, torch.device)]
        if name == "numpy" and away(given[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        sides = {away(one) for one in tensors if one.dim() > 0}
        if len(sides) > 1 and name not in _MEET:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two ({name})")
        here = tree_map(lambda one: torch.device("cpu") if isinstance(one, torch.device) else one, (given, named))
        result = function(*here[0], **here[1])
        if devices:
            return _marked(result, devices[0].type == "cuda")
        if name == "__getitem__":
            return _marked(result, away(given[0]))
        return result if name in ("__setitem__", "copy_") or not any(sides) else _marked(result, True)

    def _move(self, name: str, given: Any, named: Any) -> torch.Tensor:
        words = [*given[1:], *named.values()]
        device = next((torch.device(one) for one in words if isinstance(one, torch.device | str)), None)
        device = torch.device("cpu") if name == "cpu" else device
        rest = tuple(one for one in given[1:] if isinstance(one, torch.dtype | torch.Tensor))
        tensor = given[0]
        to_away = away(tensor) if device is None else device.type == "cuda"
        # A copy, as for a real transfer; a tensor that stays is not copied.
        result = tensor.to(*rest) if to_away == away(tensor) or device is None else tensor.to(*rest).clone()
        self.moved += to_away and not away(tensor)
        return _marked(result, to_away)  # type: ignore[no-any-return]
