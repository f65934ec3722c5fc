"""The testbed without root: it runs as root of a user namespace, in which it can make links.

`lockstep emulate --tun` does the same for the one program that it starts. Here the programs of both ends must start
inside the namespace.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Never

INSIDE = "LOCKSTEP_TESTBED_NAMESPACE"
"""Environment variable that is set inside."""
# Root of the namespace may make network namespaces and TUN devices only in a separate network. WebRTC does not offer
# the loopback address. So calls without a link use another address, on a device with a carrier. Namespaces have their
# names in /run.
PREPARE = (
    "mount -t tmpfs lockstep /run && mkdir -p /run/netns && ip link set lo up && "
    "ip link add own0 type veth peer name own1 && ip addr add 10.76.0.1/24 dev own0 && "
    "ip link set own0 up && ip link set own1 up"
)


def is_inside() -> bool:
    """Whether the testbed runs inside such a namespace."""
    return INSIDE in os.environ


def _inside(script: str, *words: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "--net", "--", "sh", "-c", script, *words]


def missing() -> str | None:
    """Missing requirements; None if the testbed can run inside such a namespace."""
    for command, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(command) is None:
            return f"{command} is not installed (Debian, Ubuntu: apt install {package})"
    tried = subprocess.run(_inside(PREPARE), check=False, capture_output=True, text=True)  # noqa: S603
    if tried.returncode == 0:
        return None
    lines = tried.stderr.strip().splitlines()
    return (
        f"user namespaces are refused ({lines[-1] if lines else f'status {tried.returncode}'}); use root, or sysctl "
        "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces"
    )


def run_again(words: Sequence[str]) -> Never:
    """Replaces this process by one that runs the testbed's command with ``words`` inside."""
    command = _inside(f'{PREPARE} && exec "$0" "$@"', sys.executable, "-m", "lockstep.testbed", *words)
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})  # noqa: S606
