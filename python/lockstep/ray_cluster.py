"""Connects to a Ray cluster and runs tasks on it: calls of a sweep, trainings of a search.

Only this module imports Ray. The package does not require it; the extra `ray` installs it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lockstep.distribution import install_command

LOCAL = "ray://local"
"""Address that starts a cluster on this machine only."""


class ClusterError(OSError):
    """A task cannot run on the cluster; the message gives the reason."""


def connect(address: str) -> Any:
    """Ray, connected to the cluster at `address`: `ray://HOST:PORT`, or `LOCAL`.

    Raises:
        ClusterError: If Ray is not installed, or there is no cluster at `address`.

    """
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise ClusterError(f"cannot import Ray; install it with: {install_command('ray')}") from error
    try:
        ray.init(address="local" if address == LOCAL else address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ClusterError(f"cannot connect to a Ray cluster at {address}: {error}") from error
    return ray


def results(
    ray: Any, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], *, cores: int = 1, gpus: int = 0
) -> Iterator[tuple[int, Any]]:
    """Runs `function` on each of `given`; yields place and result of each, in the order in which they finish.

    Each call is a separate task with this number of `cores` and `gpus`. A failure is returned as a `ClusterError`.

    Raises:
        ClusterError: If the cluster has fewer cores or GPUs than a task requires: Ray would wait forever.

    """
    has = ray.cluster_resources()
    for what, name, wanted in (("core", "CPU", cores), ("GPU", "GPU", gpus)):
        if has.get(name, 0) < wanted:
            message = f"the cluster has {has.get(name, 0):g} {what}s, but each task requires {wanted}"
            raise ClusterError(f"{message}; request fewer or add a machine")
    task = ray.remote(num_cpus=cores, num_gpus=gpus)(function)
    waiting = [task.remote(*one) for one in given]
    places = {one: place for place, one in enumerate(waiting)}
    while waiting:
        (ready, *_), waiting = ray.wait(waiting)
        yield places[ready], _result(ray, ready)


def _result(ray: Any, ready: Any) -> Any:
    try:
        return ray.get(ready)
    except Exception as error:  # any type: Ray wraps the exceptions of tasks in its own
        cause = getattr(error, "cause", None)
        for known in (cause, error):
            if type(known) is ClusterError:
                return known
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return ClusterError(
            f"a machine of the cluster failed ({lines[-1].strip()}); install this version of Lockstep on it"
        )
