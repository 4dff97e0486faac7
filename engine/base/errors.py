"""Every error a user or another process may meet.

All arguments go to `super().__init__` in order, so that default pickling rebuilds an error on the other side of Ray;
the text is made in `__str__`: what is wrong, where, what would be right.
"""

from typing import Self


class MirrorError(Exception):
    """Base of every error raymirror raises on purpose."""


class ConfigError(MirrorError):
    """A configuration that cannot be used: file, line (0 = none), key, what is wrong, what would be right."""

    def __init__(self, file: str, line: int, key: str, wrong: str, right: str) -> None:
        super().__init__(file, line, key, wrong, right)
        self.file, self.line, self.key, self.wrong, self.right = file, line, key, wrong, right

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.wrong}; {self.right}"

    depends: tuple[str, ...] = ()
    """Parts of keys: this is no error of its own where a key with one of them was wrong. `ANY`: where any was."""

    def dependent(self, *parts: str) -> Self:
        """Return itself, as an error that follows from settings whose keys have one of these parts."""
        self.depends = parts
        return self


ANY = "ANY KEY"


class ConfigErrors(ConfigError):
    """Several things that are wrong with a file, in its order; place and words are those of the first."""

    def __init__(self, *errors: ConfigError) -> None:
        first = errors[0]
        super().__init__(first.file, first.line, first.key, first.wrong, first.right)
        self.args = errors
        self.errors = errors

    @property
    def problems(self) -> tuple[str, ...]:
        """A text for each."""
        return tuple(map(str, self.errors))

    def __str__(self) -> str:
        return "\n".join([f"{len(self.errors)} problems", *(f"  {one}" for one in self.errors)])


class WireError(MirrorError):
    """Bytes that are not what Kafka's format says, at a named place."""

    def __init__(self, topic: str, partition: int, offset: int, what: str) -> None:
        super().__init__(topic, partition, offset, what)
        self.topic, self.partition, self.offset, self.what = topic, partition, offset, what

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}: {self.what}"


class CorruptBatch(WireError):
    """The CRC-32C of a batch does not match its bytes."""


class MalformedBatch(WireError):
    """A length, count or varint inside a batch that lies."""


class BatchTooLarge(WireError):
    """A batch that has to be written anew and inflates beyond the limit; nothing else is known to be wrong with it."""


class UnknownMagic(WireError):
    """A record format version other than 0, 1 or 2."""


class BrokerUnreachable(MirrorError):
    """A broker that does not answer, or does not let us in: its address and why."""

    may_pass = True
    """Whether waiting may mend it."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why

    def __str__(self) -> str:
        return f"{self.address}: cannot connect: {self.why}"

    def again(self) -> Self:
        """Return an error of its own for another one who waited for the same."""
        return type(self)(*self.args)


class BrokerRefuses(BrokerUnreachable):
    """A broker that is there and ends the handshake: what would be right is another setting, and no wait."""

    may_pass = False


class NoBroker(BrokerRefuses):
    """A port that answers, and is not one where Kafka's clients are served: its address, what shows it and is right."""

    def __str__(self) -> str:
        return f"{self.address} answers, but is no Kafka broker: {self.why}"


class BrokerSilent(BrokerUnreachable):
    """A port that takes the connection and does not end the handshake: its address, what came and what may be wrong."""

    def __str__(self) -> str:
        return f"{self.address} takes the connection, {self.why}"


class OtherCluster(BrokerUnreachable):
    """A cluster that is not the one it is taken for, so it gets no request: where, its id, what says so, what to do."""

    may_pass = False

    def __init__(self, where: str, found: str, known_by: str, right: str) -> None:
        super().__init__(where, f"this is cluster {found}, and {known_by}; {right}")
        self.args = where, found, known_by, right  # what rebuilds it elsewhere
        self.found = found

    def __str__(self) -> str:
        return f"{self.address}: {self.why}"


class ClusterAway(BrokerUnreachable):
    """A cluster of which no broker answers: where its addresses are set (empty: not known), its alias, why of each."""

    _does = "answers"

    def __init__(self, where: str, cluster: str, why: str) -> None:
        super().__init__(f"cluster {cluster!r}", why)
        self.args = where, cluster, why  # what rebuilds it elsewhere
        self.where = where

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{where}no broker of {self.address} {self._does}: {self.why}"


class ClusterRefuses(ClusterAway, BrokerRefuses):
    """A cluster that is there and lets us in nowhere; arguments as of ClusterAway."""

    _does = "lets us in"


class SameCluster(MirrorError):
    """Both aliases of a flow lead to one cluster: flow, source alias, target alias, what shows it."""

    def __init__(self, flow: str, source: str, target: str, why: str) -> None:
        super().__init__(flow, source, target, why)
        self.flow, self.source, self.target, self.why = flow, source, target, why

    @property
    def wrong(self) -> str:
        """Say what is wrong, without what would be right."""
        return (
            f"{self.source!r} and {self.target!r} lead to one cluster: {self.why}; flow {self.flow} would copy its"
            " topics onto or beside themselves"
        )

    @property
    def right(self) -> str:
        """Say what would be right."""
        return (
            f"name the brokers of another cluster; to copy within one cluster on purpose, with prefixes, set"
            f" {self.flow}.raymirror.same.cluster = allow (ignore: they are two, one made of the other's disks)"
        )

    def __str__(self) -> str:
        return f"flow {self.flow}: {self.wrong}; {self.right}"


class NotReady(MirrorError):
    """Everything that keeps a configuration from running, a line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n".join([f"{len(self.problems)} problems", *(f"  {one}" for one in self.problems)])


class ConnectionLost(MirrorError):
    """A connection ended with requests unanswered: their outcome is unknown."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return f"connection lost: {self.where}"


class OffsetGone(ConnectionLost):
    """An offset that its log does not hold: retention, or deleted records, moved the log start while it was read.

    Whoever asks for the log start and the end again, and reads from there, gets an answer.
    """

    def __str__(self) -> str:
        return f"{self.where}: the log does not hold that offset any more; its start is asked for again"


class KafkaRefusal(MirrorError):
    """A broker answered a control request with an error: what was asked, Kafka's code and name, what would be right."""

    def __init__(self, asked: str, code: int, name: str, right: str) -> None:
        super().__init__(asked, code, name, right)
        self.asked, self.code, self.name, self.right = asked, code, name, right

    def __str__(self) -> str:
        return f"{self.asked}: {self.name} ({self.code})" + (f"; {self.right}" if self.right else "")


class NewerFormat(MirrorError, ValueError):
    """Something stored in a format too far above ours: where it stands, its version, ours."""

    def __init__(self, where: str, found: int, own: int) -> None:
        super().__init__(where, found, own)
        self.where, self.found, self.own = where, found, own

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return (
            f"{where}format {self.found}, written by a newer raymirror; this one writes format {self.own} and reads up"
            f" to {self.own + 1}: install a newer version, or go back one version at a time"
        )


class StateUnreadable(MirrorError):
    """An entry of a state topic that is not what we write: topic, key, why."""

    def __init__(self, topic: str, key: str, why: str) -> None:
        super().__init__(topic, key, why)
        self.topic, self.key, self.why = topic, key, why

    def __str__(self) -> str:
        return f"topic {self.topic}: entry {self.key}: {self.why}; write a tombstone (no value) for that key to drop it"


class FlowHeld(MirrorError):
    """A living mirror has the flow: which flow, who it is and where, since when."""

    def __init__(self, flow: str, holder: str, topic: str) -> None:
        super().__init__(flow, holder, topic)
        self.flow, self.holder, self.topic = flow, holder, topic

    def __str__(self) -> str:
        return (
            f"flow {self.flow} belongs to {self.holder}, which renews its entry in topic {self.topic};"
            " stop that mirror first: raymirror stop"
        )


class StateTaken(MirrorError):
    """Another owner has taken the flow's state over: nothing more may be written."""

    def __init__(self, flow: str, holder: str, topic: str) -> None:
        super().__init__(flow, holder, topic)
        self.flow, self.holder, self.topic = flow, holder, topic

    def __str__(self) -> str:
        return f"flow {self.flow} was taken over by {self.holder} (topic {self.topic}); this mirror stands down"


class GroupActive(MirrorError):
    """A consumer group that has members, so that nobody else may commit for it: group, cluster."""

    def __init__(self, group: str, cluster: str) -> None:
        super().__init__(group, cluster)
        self.group, self.cluster = group, cluster

    def __str__(self) -> str:
        return f"group {self.group} has members on cluster {self.cluster!r}; stop its consumers there first"
