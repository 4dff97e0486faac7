"""Events of config sync: changes, differences that it may not fix, failures. Many of one kind are one event."""

from typing import ClassVar

from engine.core.events.event_base import Event
from policies.words import counted


class TopicConfigsChanged(Event, frozen=True, kw_only=True, tag="topic_configs_changed"):
    """Configs of one copy were set (`changed`: the new values) or removed (`dropped`)."""

    topic: str
    target: str
    changed: dict[str, str]
    dropped: tuple[str, ...]

    @property
    def about(self) -> str:
        """Name the source topic."""
        return self.topic

    def text(self) -> str:
        said = [f"{name}={value}" for name, value in self.changed.items()]
        said += [f"{name} taken away" for name in self.dropped]
        return f"{self.topic}: configs of {self.target} changed: {', '.join(said)}"


class AclsAdded(Event, frozen=True, kw_only=True, tag="acls_added"):
    """Bindings were added to one resource of the target."""

    name: str
    bindings: tuple[str, ...]

    @property
    def about(self) -> str:
        """Name the resource."""
        return self.name

    def text(self) -> str:
        return f"{self.name}: ACLs added on {self.flow.target}: {'; '.join(self.bindings)}"


class ManyChanged(Event, frozen=True, kw_only=True, tag="many_changed"):
    """One round changed more topics or resources of a `part` than get events of their own; `count`: how many more."""

    part: str
    count: int

    @property
    def about(self) -> str:
        """Name the part."""
        return self.part

    def text(self) -> str:
        return f"{self.part}: {self.count} more were brought in step in the same round"


class ConfigConflicts(Event, frozen=True, kw_only=True, tag="config_conflicts"):
    """Topics and copies differ in a way that config sync does not fix; reported again when the difference changes."""

    severity: ClassVar[str] = "warning"
    kind: str
    count: int
    first: str

    @property
    def about(self) -> str:
        """Name the kind."""
        return self.kind

    def text(self) -> str:
        more = f", and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.kind}: {self.first}{more}; left as it is, all are in: raymirror plan"


class ConfigSyncFailed(Event, frozen=True, kw_only=True, tag="config_sync_failed"):
    """A part of a round (`part`: configs, ACLs) could not be read or written; it is tried again. The rest was done."""

    severity: ClassVar[str] = "warning"
    part: str
    count: int
    first: str

    @property
    def about(self) -> str:
        """Name the part."""
        return self.part

    def text(self) -> str:
        more = f", and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.part}: not in step: {self.first}{more}; the rest is, and this is tried again in the next round"


class AclsRest(Event, frozen=True, kw_only=True, tag="acls_rest"):
    """A cluster has no authorizer, so there are no ACLs to keep in step."""

    cluster: str

    @property
    def about(self) -> str:
        """Name the cluster."""
        return self.cluster

    def text(self) -> str:
        return (
            f"{self.cluster}: this cluster has no authorizer, so there are no ACLs to keep in step;"
            " sync.topic.acls.enabled = false says that this is meant"
        )


class AuditRests(Event, frozen=True, kw_only=True, tag="audit_rests"):
    """There is no place for an audit trail (`key` is not set); reported when the first row would be written."""

    key: str

    @property
    def about(self) -> str:
        """Name the key."""
        return self.key

    def text(self) -> str:
        return (
            f"{self.key}: not set, so changes of topics, configs and ACLs are told as events and kept nowhere"
            " else; a folder (file:/...) or bucket (s3a:, gs:) keeps an audit trail of them"
        )


class AuditUnwritten(Event, frozen=True, kw_only=True, tag="audit_unwritten"):
    """Rows of the audit trail could not be written; they wait in memory and are tried again."""

    severity: ClassVar[str] = "warning"
    where: str
    count: int
    why: str

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        rows = counted(self.count, "row")
        return f"{self.where}: the audit trail lacks {rows} still: {self.why}; tried again, ever less often"


class AuditLost(Event, frozen=True, kw_only=True, tag="audit_lost"):
    """Rows of the audit trail were never written: its storage was away for longer than they could wait in memory."""

    severity: ClassVar[str] = "error"
    where: str
    count: int

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        rows = counted(self.count, "row")
        return f"{self.where}: the audit trail lacks {rows} for good: its storage was away for too long"


class AuditUntidy(Event, frozen=True, kw_only=True, tag="audit_untidy"):
    """Past days of the audit trail could not be merged or removed; new rows are written all the same."""

    severity: ClassVar[str] = "warning"
    where: str
    why: str

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        return f"{self.where}: {self.why}; what is there can be read, and it is tried again on another day"


ConfigEvent = (
    TopicConfigsChanged
    | AclsAdded
    | ManyChanged
    | ConfigConflicts
    | ConfigSyncFailed
    | AclsRest
    | AuditRests
    | AuditUnwritten
    | AuditLost
    | AuditUntidy
)
