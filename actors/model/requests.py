"""Requests of commands to a mirror's supervisor: one table for both ways, Ray and the socket of its machine.

The tag of a request is the method of `actors.ray.supervisor_actor.SupervisorActor` that answers it. Its fields are that
method's arguments, in order. Importing this module imports no Ray.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

import msgspec

from actors.model.messages import AlteredOffset
from actors.model.states import Command
from actors.model.status import MirrorStatus, decode_status
from engine.base.errors import MirrorError
from policies.roles import Role

CALL_TIMEOUT_S: Final = 15.0
ASKED_BY: Final = "RAYMIRROR_ASKED_BY"
"""The variable that tells a command which user of HTTP has asked for it."""
OVER_HTTP: Final = "RAYMIRROR_OVER_HTTP"
"""The variable that tells a command that a request over HTTP has started it, and where its advice is read."""
ASKED_FROM: Final = "raymirror-asked-from"
"""The header in which raymirror's own command line says that its user knows options, not fields."""
ASKED_WRONGLY: Final = 64
"""The exit code of such a command for a WrongQuestion, which is 2 for people: other errors end with 2 too."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method"):
    """A request to a supervisor."""

    @property
    def method(self) -> str:
        """The supervisor's method that answers it."""
        return str(self.__struct_config__.tag)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return msgspec.structs.astuple(self)


class AskStatus(Request, frozen=True, tag="status"):
    """Asks for the status; a process that gives its name (`follower`) counts as following the mirror."""

    lanes: bool = False
    follower: str = ""


class GiveCommand(Request, frozen=True, tag="command"):
    """Changes the wanted state of the mirror, of a flow, or of some topics."""

    command: Command
    flow: str | None = None
    topics: tuple[str, ...] = ()


class DeleteFlow(Request, frozen=True, tag="delete_flow"):
    """Stops a flow, which then has no connector until it is resumed, paused or stopped."""

    flow: str


class RestartFlow(Request, frozen=True, tag="restart"):
    """Replaces the copiers of a flow, one by one."""

    flow: str


class RestartCopiers(Request, frozen=True, tag="restart_copiers"):
    """Replaces some copiers of a flow, and tries its quarantined partitions again; without copiers, only that."""

    flow: str
    copiers: tuple[str, ...]


class AskPositions(Request, frozen=True, tag="positions"):
    """Asks how far the partitions of a flow are copied by their positions on the target."""

    flow: str


class ChangeSettings(Request, frozen=True, tag="change_settings"):
    """Changes settings of a flow in the mirror's file, and applies it; names are a connector's, None removes one.

    `before`: all settings that the changes were derived from; if the flow has others by now, nothing is changed.
    """

    flow: str
    changes: dict[str, str | None]
    before: dict[str, str] | None = None


class AlterPositions(Request, frozen=True, tag="alter_positions"):
    """Sets positions of a flow that is stopped; `wanted` None: removes those of all its partitions."""

    flow: str
    wanted: tuple[AlteredOffset, ...] | None


class CreateFlow(Request, frozen=True, tag="create_flow"):
    """Adds a flow between two clusters of the mirror's file, and applies the file; `settings`: a connector's."""

    source: str
    target: str
    settings: dict[str, str]


class AskFilePlan(Request, frozen=True, tag="file_plan"):
    """Asks what a reload of the mirror's file, as it is on disk, would change."""


class ApplyFile(Request, frozen=True, tag="apply_present"):
    """Reloads the mirror's file, if it still has the sha256 that was looked at."""

    digest: str


class AskConsole(Request, frozen=True, tag="console"):
    """Asks where the console is, with a one-time token that opens a session of this user and role."""

    user: str
    role: Role


_Questions = AskStatus | AskPositions | AskFilePlan | AskConsole
_Changes = ChangeSettings | CreateFlow | DeleteFlow | AlterPositions | ApplyFile
AnyRequest = _Questions | GiveCommand | RestartFlow | RestartCopiers | _Changes


ENDED: Final = "it has ended"


class MirrorLost(MirrorError):
    """The supervisor does not answer."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, namespace: str, cause: str) -> None:
        super().__init__(namespace, cause)
        self.namespace, self.cause = namespace, cause

    @property
    def has_ended(self) -> bool:
        """Whether the mirror is known to have ended; else its supervisor may only be slow, and its copiers continue."""
        return self.cause == ENDED

    def __str__(self) -> str:
        return f"mirror {self.namespace}: the supervisor does not answer ({self.cause})"


class AnsweringMirror(ABC):
    """A mirror whose supervisor answers requests; a subclass decides how they are sent."""

    @abstractmethod
    def send(self, request: AnyRequest, timeout_s: float = CALL_TIMEOUT_S) -> bytes | None:
        """Send a request and return the answer. Raises MirrorLost, and the error of a refused request."""

    def status(self, *, lanes: bool = False, timeout_s: float = CALL_TIMEOUT_S) -> MirrorStatus:
        """Ask for the status. Raises MirrorLost, and the supervisor's error if its rounds have failed."""
        return decode_status(self.send(AskStatus(lanes), timeout_s) or b"")

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> MirrorStatus:
        """Send a command. Raises UnknownFlow, UnknownTopic, TopicsNotKnownYet, IllegalCommand, MirrorLost."""
        return decode_status(self.send(GiveCommand(command, flow, topics)) or b"")

    def restart(self, flow: str) -> None:
        """Replace the copiers of a flow one by one. Raises UnknownFlow, MirrorLost."""
        self.send(RestartFlow(flow))
