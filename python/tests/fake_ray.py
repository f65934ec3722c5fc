"""A fake Ray cluster for tests."""

import types


class FakeRay(types.ModuleType):
    """The used parts of Ray: a task runs when its result is requested, the last one first."""

    def __init__(self, **resources: float) -> None:
        super().__init__("ray")
        self.address = ""
        self.resources = {"CPU": 2.0, **resources}
        self.asked: dict[str, object] = {}

    def init(self, address: str, **_: object) -> None:
        self.address = address

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, **asked: object) -> object:
        self.asked = asked

        def wrap(function: object) -> object:
            return types.SimpleNamespace(remote=lambda *arguments: lambda: function(*arguments))  # type: ignore[operator]

        return wrap

    def wait(self, waiting: list[object]) -> tuple[list[object], list[object]]:
        return waiting[-1:], waiting[:-1]

    def get(self, task: object) -> object:
        return task()  # type: ignore[operator]
