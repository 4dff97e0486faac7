"""The errors that a user or another process may see.

All arguments go to `super().__init__` in order, so that default pickling rebuilds an error in another Ray process.
`__str__` makes the text: what is wrong, where, what would be right.
"""

from typing import Self


def in_one_line(text: str) -> str:
    """Return a text with its control characters as escapes: a key of a file may have any."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


class MirrorError(Exception):
    """The base class of every error that raymirror raises on purpose."""


class WrongQuestion(MirrorError):
    """What was asked for is wrong, whatever the clusters do: other words would be right, and nothing was changed."""


class ConfigError(MirrorError):
    """A configuration that cannot be used: file, line (0 = none), key, what is wrong, what would be right."""

    def __init__(self, file: str, line: int, key: str, wrong: str, right: str) -> None:
        super().__init__(file, line, key, wrong, right)
        self.file, self.line, self.key, self.wrong, self.right = file, line, key, wrong, right

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return in_one_line(f"{where}: {self.key}: {self.wrong}; {self.right}")

    depends: tuple[str, ...] = ()
    """Parts of keys: if a wrong key contains one, this error only follows from it. `ANY`: from any wrong key."""

    def dependent(self, *parts: str) -> Self:
        """Mark this error as one that may follow from settings whose keys contain one of these parts; return it."""
        self.depends = parts
        return self


ANY = "ANY KEY"


class ConfigErrors(ConfigError):
    """Several errors of one file, in the order of the file; its attributes are those of the first error."""

    def __init__(self, *errors: ConfigError) -> None:
        first = errors[0]
        super().__init__(first.file, first.line, first.key, first.wrong, first.right)
        self.args = errors
        self.errors = errors

    @property
    def problems(self) -> tuple[str, ...]:
        """The text of each error."""
        return tuple(map(str, self.errors))

    def __str__(self) -> str:
        return "\n".join([f"{len(self.errors)} problems", *(f"  {one}" for one in self.errors)])


class WireError(MirrorError):
    """Bytes that do not follow Kafka's format, with their place."""

    def __init__(self, topic: str, partition: int, offset: int, what: str) -> None:
        super().__init__(topic, partition, offset, what)
        self.topic, self.partition, self.offset, self.what = topic, partition, offset, what

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}: {self.what}"


class CorruptBatch(WireError):
    """The CRC-32C of a batch does not match its bytes."""


class MalformedBatch(WireError):
    """A length, count or varint inside a batch is wrong."""


class BatchTooLarge(WireError):
    """A batch that must be rewritten inflates beyond the limit; it may be fine otherwise."""


class UnknownMagic(WireError):
    """A record format version other than 0, 1 or 2."""


class BrokerUnreachable(MirrorError):
    """A broker does not answer or does not accept raymirror: its address and the reason."""

    may_pass = True
    """Whether waiting may help."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why

    def __str__(self) -> str:
        return f"{self.address}: cannot connect: {self.why}"

    def again(self) -> Self:
        """Return an equal new error, for another task that waited for the same connection."""
        return type(self)(*self.args)


class BrokerRefuses(BrokerUnreachable):
    """A broker answers and rejects the handshake: a setting must change, waiting does not help."""

    may_pass = False


class NoBroker(BrokerRefuses):
    """A port answers but does not serve Kafka clients: its address, what shows that, and what would be right."""

    def __str__(self) -> str:
        return f"{self.address} answers, but is no Kafka broker: {self.why}"


class BrokerSilent(BrokerUnreachable):
    """A port accepts the connection but does not finish the handshake: its address, and what may be wrong."""

    def __str__(self) -> str:
        return f"{self.address} accepts the connection, {self.why}"


class OtherCluster(BrokerUnreachable):
    """A cluster is not the expected one, so it gets no request: where, its id, what shows that, what to do."""

    may_pass = False

    def __init__(self, where: str, found: str, known_by: str, right: str) -> None:
        super().__init__(where, f"this is cluster {found}, and {known_by}; {right}")
        self.args = where, found, known_by, right  # for pickling
        self.found = found

    def __str__(self) -> str:
        return f"{self.address}: {self.why}"


class ClusterAway(BrokerUnreachable):
    """No broker of a cluster answers: where its addresses are set (empty: not known), its alias, the reasons."""

    _does = "answers"

    def __init__(self, where: str, cluster: str, why: str) -> None:
        super().__init__(f"cluster {cluster!r}", why)
        self.args = where, cluster, why  # for pickling
        self.where = where

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{where}no broker of {self.address} {self._does}: {self.why}"


class ClusterRefuses(ClusterAway, BrokerRefuses):
    """Brokers of a cluster answer, but none accepts raymirror; same arguments as ClusterAway."""

    _does = "accepts raymirror"


class SameCluster(MirrorError):
    """Both aliases of a flow lead to one cluster: flow, source alias, target alias, what shows that."""

    def __init__(self, flow: str, source: str, target: str, why: str) -> None:
        super().__init__(flow, source, target, why)
        self.flow, self.source, self.target, self.why = flow, source, target, why

    @property
    def wrong(self) -> str:
        """What is wrong, without what would be right."""
        return (
            f"{self.source!r} and {self.target!r} lead to one cluster: {self.why}; flow {self.flow} would copy its"
            " topics onto or beside themselves"
        )

    @property
    def right(self) -> str:
        """What would be right."""
        return (
            f"name the brokers of another cluster; to copy within one cluster on purpose, with prefixes, set"
            f" {self.flow}.raymirror.same.cluster = allow (ignore: they are two, one created"
            " from the other's disks)"
        )

    def __str__(self) -> str:
        return f"flow {self.flow}: {self.wrong}; {self.right}"


class NotReady(MirrorError):
    """Everything that keeps a configuration from running, one line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n".join([f"{len(self.problems)} problems", *(f"  {one}" for one in self.problems)])


class ConnectionLost(MirrorError):
    """A connection ended before requests were answered: their outcome is unknown."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return f"connection lost: {self.where}"


class OffsetGone(ConnectionLost):
    """A log no longer has an offset: retention or DeleteRecords moved the log start during the read.

    A caller that asks for the log start and the log end again, and reads from there, gets an answer.
    """

    def __str__(self) -> str:
        return f"{self.where}: the log does not hold that offset any more; raymirror asks for the log start again"


class KafkaRefusal(MirrorError):
    """A broker answered a control request with an error: the request, Kafka's code and name, what would be right."""

    def __init__(self, asked: str, code: int, name: str, right: str) -> None:
        super().__init__(asked, code, name, right)
        self.asked, self.code, self.name, self.right = asked, code, name, right

    def __str__(self) -> str:
        return f"{self.asked}: {self.name} ({self.code})" + (f"; {self.right}" if self.right else "")


class NewerFormat(MirrorError, ValueError):
    """Stored data has a format that is too new: where it is, its version, the version of this raymirror."""

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
    """An entry of a state topic is not one that raymirror writes: topic, key, why."""

    def __init__(self, topic: str, key: str, why: str) -> None:
        super().__init__(topic, key, why)
        self.topic, self.key, self.why = topic, key, why

    def __str__(self) -> str:
        return f"topic {self.topic}: entry {self.key}: {self.why}; write a tombstone (no value) for that key to drop it"


class FlowHeld(MirrorError):
    """Another running mirror owns the flow: the flow, that mirror, the state topic."""

    def __init__(self, flow: str, holder: str, topic: str) -> None:
        super().__init__(flow, holder, topic)
        self.flow, self.holder, self.topic = flow, holder, topic

    def __str__(self) -> str:
        return (
            f"flow {self.flow} belongs to {self.holder}, which renews its entry in topic {self.topic};"
            " stop that mirror first: raymirror stop"
        )


class StateTaken(MirrorError):
    """Another owner has taken over the flow's state: this mirror must not write for the flow any more."""

    def __init__(self, flow: str, holder: str, topic: str) -> None:
        super().__init__(flow, holder, topic)
        self.flow, self.holder, self.topic = flow, holder, topic

    def __str__(self) -> str:
        return f"flow {self.flow} was taken over by {self.holder} (topic {self.topic}); this mirror stops the flow"


class GroupActive(MirrorError):
    """A consumer group has members, so no other client can commit for it: group, cluster."""

    def __init__(self, group: str, cluster: str) -> None:
        super().__init__(group, cluster)
        self.group, self.cluster = group, cluster

    def __str__(self) -> str:
        return f"group {self.group} has members on cluster {self.cluster!r}; stop its consumers there first"
