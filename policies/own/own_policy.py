"""A policy that a Python package provides, and what it was made from: the name of its entry point and its settings."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

P = TypeVar("P")


class OwnPolicyError(Exception):
    """A policy of the user has raised an error, or has given an answer that cannot be used."""

    def __init__(self, name: str, method: str, wrong: str) -> None:
        super().__init__(name, method, wrong)
        self.name, self.method, self.wrong = name, method, wrong

    def __str__(self) -> str:
        return f"policy {self.name}: {self.method}: {self.wrong}"


class OwnPolicy(Generic[P]):
    """`settings`: those that the policy has read. Two of the same name and settings are the same."""

    def __init__(self, name: str, settings: Mapping[str, str], made: P) -> None:
        self.name = name
        self.settings = dict(settings)
        self.made = made

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What it was made from, for comparisons between processes."""
        return self.name, tuple(sorted(self.settings.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnPolicy) and other.identity == self.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def says(self, method: Callable[[str], object], name: str) -> bool:
        """Return the answer of one of its methods about a topic, group or config. Raises OwnPolicyError."""
        answer = self.asked(method, name)
        if not isinstance(answer, bool):
            raise OwnPolicyError(self.name, _named(method), f"{answer!r} for {name!r} is neither True nor False")
        return answer

    def asked(self, method: Callable[..., object], *arguments: str) -> object:
        """Call one of its methods. Raises OwnPolicyError."""
        try:
            return method(*arguments)
        except Exception as error:
            called = ", ".join(map(repr, arguments))
            raise OwnPolicyError(self.name, _named(method), f"{type(error).__name__} for {called}: {error}") from error


def _named(method: Callable[..., object]) -> str:
    """Return the name of a method; whatever can be called may stand in its place, and need not have one."""
    return str(getattr(method, "__name__", type(method).__name__))
