"""Arguments that do not fit the configuration, and the choice of flows by name."""

from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig


class BadQuestion(MirrorError):
    """An argument does not fit the configuration: `wrong` says why, `right` what to give instead."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"{self.wrong}; {self.right}"


def chosen_flows(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """Return the flow with this name, or all flows for None. Raises BadQuestion."""
    found = tuple(flow for flow in config.flows if name in (None, str(flow.name)))
    if not found:
        names = ", ".join(repr(str(flow.name)) for flow in config.flows)
        raise BadQuestion(f"there is no flow {name!r}", f"use one of {names}")
    return found
