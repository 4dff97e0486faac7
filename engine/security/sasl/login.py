"""A login as connections use it: a mechanism, and for each connection the messages of one exchange."""

from collections.abc import Generator
from typing import Protocol

from engine.base.errors import MirrorError

Exchange = Generator[bytes, bytes, None]
"""One login on one connection: yields what to send, receives what the broker answers, and ends when it is complete."""


class LoginFailed(MirrorError):
    """A login that could not begin, or a broker that proved not to know the secret: why, and whether it may pass."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        super().__init__(why, may_pass)
        self.why, self.may_pass = why, may_pass

    def __reduce__(self) -> tuple[object, ...]:
        return _failed, (self.why, self.may_pass)

    def __str__(self) -> str:
        return self.why


def _failed(why: str, may_pass: bool) -> LoginFailed:
    return LoginFailed(why, may_pass=may_pass)


class Login(Protocol):
    """Who raymirror is at one cluster. One object serves all connections of a process, from any thread."""

    @property
    def mechanism(self) -> str:
        """The name of the SASL mechanism."""

    @property
    def user(self) -> str:
        """The user name that brokers will see; empty if only they know it."""

    def exchange(self, host: str) -> Exchange:
        """Begin a login at a broker. It may wait for other servers, so call it in a thread. Raises LoginFailed."""
