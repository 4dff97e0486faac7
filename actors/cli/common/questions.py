"""Questions that cannot be answered as they were put."""

from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig


class BadQuestion(MirrorError):
    """Arguments that do not fit the configuration: what is wrong, what would be right."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"{self.wrong}; {self.right}"


def chosen_flows(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """Return the flow of a name, or all flows. Raises BadQuestion."""
    found = tuple(flow for flow in config.flows if name in (None, str(flow.name)))
    if not found:
        names = ", ".join(repr(str(flow.name)) for flow in config.flows)
        raise BadQuestion(f"there is no flow {name!r}", f"use one of {names}")
    return found
