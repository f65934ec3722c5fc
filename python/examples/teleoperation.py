"""Teleoperation with asyncio: commands are latest messages, telemetry is reliable, and stale video stops the robot.

Run it with ``python teleoperation.py``. Operator and robot share one program, and it ends on its own.
"""

import asyncio

import numpy as np

import lockstep


async def film(robot: lockstep.Call) -> None:
    """Film for two seconds, then the camera fails; or until the robot was stopped."""
    robot.send_message(b"battery 87 %")
    for tick in range(60):
        if robot.is_over:
            return
        robot.send(np.full((240, 320, 3), tick, np.uint8))
        await asyncio.sleep(1 / 30)


async def obey(robot: lockstep.Call) -> list[bytes]:
    """Return the commands that the robot received before it was stopped."""
    commands: list[bytes] = []
    async for event in robot.events():
        if isinstance(event, lockstep.Message):
            commands.append(event.data)
            if event.data == b"stop":
                print(f"robot: stopped after {len(commands)} commands, the last took {event.delay * 1e3:.1f} ms")
                await asyncio.to_thread(robot.leave)
    return commands


async def steer(operator: lockstep.Call) -> None:
    """Steer by each frame; a newer command of a channel replaces an older one."""
    async for frame in operator:
        operator.send_message(b"steer %.0f" % frame.planes[0].mean(), channel=1)


async def watch(operator: lockstep.Call) -> None:
    """Stop the robot when the video is stale."""
    async for event in operator.events():
        match event:
            case lockstep.Message(data):
                print("operator:", data.decode())
            case lockstep.Stale(age):
                print(f"operator: the video is {age:.2f} s old: stop")
                operator.send_message(b"stop")


async def main() -> list[bytes]:
    """Return the commands that the robot received."""
    operator = lockstep.Call.listen("127.0.0.1:0", stale_after=0.3)
    robot = lockstep.Call.join(operator.ticket, send=(320, 240, 30), receive=False, latency="low")
    async with operator, robot:
        return (await asyncio.gather(obey(robot), film(robot), steer(operator), watch(operator)))[0]


if __name__ == "__main__":
    raise SystemExit(len(asyncio.run(main())) < 30)
