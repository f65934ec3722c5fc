"""A Ray cluster, and tasks on it: calls of a sweep, trainings of a search.

Ray is needed here only and is no requirement of the package; it comes with its extra `ray`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lockstep.distribution import install_command

LOCAL = "ray://local"
"""The address of a cluster of this machine alone."""


class ClusterError(OSError):
    """Something that cannot be run on a cluster; the message says why."""


def connect(address: str) -> Any:
    """Ray, connected to the cluster at `address`: `ray://HOST:PORT`, or `LOCAL`.

    Raises:
        ClusterError: if there is no Ray, or no cluster at `address`.

    """
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise ClusterError(f"Ray is missing; install it with: {install_command('ray')}") from error
    try:
        ray.init(address="local" if address == LOCAL else address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ClusterError(f"there is no Ray cluster at {address}: {error}") from error
    return ray


def results(
    ray: Any, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], *, cores: int = 1, gpus: int = 0
) -> Iterator[tuple[int, Any]]:
    """What `function` gives for each of `given`, with its place there, in the order in which the cluster finishes them.

    Each is a task of its own, which takes so many `cores` and `gpus`. What failed comes as a `ClusterError`.

    Raises:
        ClusterError: if the cluster has not as many: Ray would wait for them for ever.

    """
    has = ray.cluster_resources()
    for what, name, wanted in (("core", "CPU", cores), ("GPU", "GPU", gpus)):
        if has.get(name, 0) < wanted:
            message = f"the cluster has {has.get(name, 0):g} {what}s, and each task takes {wanted}"
            raise ClusterError(f"{message}: take fewer, or add a machine")
    task = ray.remote(num_cpus=cores, num_gpus=gpus)(function)
    waiting = [task.remote(*one) for one in given]
    places = {one: place for place, one in enumerate(waiting)}
    while waiting:
        (ready, *_), waiting = ray.wait(waiting)
        yield places[ready], _result(ray, ready)


def _result(ray: Any, ready: Any) -> Any:
    try:
        return ray.get(ready)
    except Exception as error:  # of whatever kind: Ray has its own, which wrap those of tasks
        cause = getattr(error, "cause", None)
        for known in (cause, error):
            if type(known) is ClusterError:
                return known
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return ClusterError(f"a machine of the cluster failed ({lines[-1].strip()}); it needs Lockstep as it is here")
