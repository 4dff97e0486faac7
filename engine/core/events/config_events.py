"""Events of config sync: changes, differences that it must not fix, failures. One event covers many cases of a kind."""

from typing import ClassVar

from engine.core.events.event_base import Event
from policies.sync.unknown_configs import how_to_settle
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
        said += [f"{name} removed" for name in self.dropped]
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
    """One round changed more topics or resources of a `part` than get their own events; `count`: how many more."""

    part: str
    count: int

    @property
    def about(self) -> str:
        """Name the part."""
        return self.part

    def text(self) -> str:
        return f"{self.part}: the same round changed {self.count} more on the target"


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
        return f"{self.kind}: {self.first}{more}; raymirror does not change this; `raymirror plan` lists all"


class ConfigUnknown(Event, frozen=True, kw_only=True, tag="config_unknown"):
    """The target does not know a topic config (`name`), so copies are created without it; `target`: the first copy."""

    severity: ClassVar[str] = "warning"
    name: str
    target: str

    @property
    def about(self) -> str:
        """Name the config."""
        return self.name

    def text(self) -> str:
        return (
            f"{self.name}: cluster {self.flow.target!r} does not know this topic config, so raymirror creates copies"
            f" without it, {self.target} first: {how_to_settle(self.name)}"
        )


class ConfigSyncFailed(Event, frozen=True, kw_only=True, tag="config_sync_failed"):
    """A `part` of a round (configs, ACLs) could not be read or written; raymirror retries it. The rest succeeded."""

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
        return f"{self.part}: not synced: {self.first}{more}; the rest is synced; raymirror retries in the next round"


class AclsRest(Event, frozen=True, kw_only=True, tag="acls_rest"):
    """A cluster has no authorizer, so there are no ACLs to sync."""

    cluster: str

    @property
    def about(self) -> str:
        """Name the cluster."""
        return self.cluster

    def text(self) -> str:
        return (
            f"{self.cluster}: this cluster has no authorizer, so there are no ACLs to sync;"
            " if this is intended, set sync.topic.acls.enabled = false"
        )


class AuditRests(Event, frozen=True, kw_only=True, tag="audit_rests"):
    """No storage is configured for an audit trail (`key` is not set); reported when the first row would be written."""

    key: str

    @property
    def about(self) -> str:
        """Name the key."""
        return self.key

    def text(self) -> str:
        return (
            f"{self.key}: not set, so raymirror reports changes of topics, configs and ACLs as events and stores them"
            " nowhere else; for an audit trail of the changes, set a folder (file:/...) or a bucket (s3a:, gs:)"
        )


class AuditUnwritten(Event, frozen=True, kw_only=True, tag="audit_unwritten"):
    """Rows of the audit trail could not be written; they wait in memory, and raymirror retries them."""

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
        return f"{self.where}: {rows} of the audit trail not written yet: {self.why}; raymirror retries ever less often"


class AuditLost(Event, frozen=True, kw_only=True, tag="audit_lost"):
    """Rows of the audit trail are lost: its storage was unreachable for longer than rows could wait in memory."""

    severity: ClassVar[str] = "error"
    where: str
    count: int

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        rows = counted(self.count, "row")
        return f"{self.where}: {rows} of the audit trail lost: its storage was unreachable for too long"


class AuditUntidy(Event, frozen=True, kw_only=True, tag="audit_untidy"):
    """Past days of the audit trail could not be merged or removed; raymirror still writes new rows."""

    severity: ClassVar[str] = "warning"
    where: str
    why: str

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        return f"{self.where}: {self.why}; existing rows stay readable; raymirror retries on another day"


ConfigEvent = (
    TopicConfigsChanged
    | AclsAdded
    | ManyChanged
    | ConfigConflicts
    | ConfigUnknown
    | ConfigSyncFailed
    | AclsRest
    | AuditRests
    | AuditUnwritten
    | AuditLost
    | AuditUntidy
)
