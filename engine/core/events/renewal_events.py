"""Events of topics and clusters whose ids differ from the ids in the stored positions."""

from typing import ClassVar

from engine.core.events.event_base import Event, LaneEvent


class IdentityChanged(LaneEvent, frozen=True, kw_only=True, tag="identity_changed"):
    """A topic, a cluster or a producer id differs from the one that the position was written for."""

    severity: ClassVar[str] = "error"
    what: str
    expected: str
    found: str

    def text(self) -> str:
        right = "; to continue, set raymirror.topic.recreated = append or re-create"
        if self.what.endswith("cluster's id"):
            right = (
                f"; point the alias at cluster {self.expected} again; if the cluster was replaced on purpose, give"
                " the new cluster its own alias, or delete the positions topic and the copies"
            )
        return f"{self.lane}: {self.what} changed from {self.expected} to {self.found}; the lane stopped{right}"


class TopicRenewed(LaneEvent, frozen=True, kw_only=True, tag="topic_renewed"):
    """A lane continues although its source topic, target topic or both were re-created; `choice`: the configured value.

    `copied`: the next source offset after the last record copied before; of the previous source topic if that was
    re-created.
    """

    severity: ClassVar[str] = "warning"
    source_renewed: bool
    target_renewed: bool
    choice: str
    copied: int
    source_offset: int
    target_offset: int

    def text(self) -> str:
        source = (
            f"the source topic was re-created: the previous one was copied up to offset {self.copied} (exclusive); "
        )
        target = "the target topic was re-created: it has no records that were copied before; "
        return (
            f"{self.lane}: {source * self.source_renewed}{target * self.target_renewed}the lane continues at"
            f" source offset {self.source_offset}, target offset {self.target_offset}, as raymirror.topic.recreated ="
            f" {self.choice} says"
        )


class CopyKept(Event, frozen=True, kw_only=True, tag="copy_kept"):
    """A copy was kept although `re-create` is set: the source may be another cluster, or a restored one."""

    severity: ClassVar[str] = "error"
    topic: str
    target: str
    former: str
    present: str
    what: str

    @property
    def about(self) -> str:
        """Name the source topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: its id on the source is {self.present}, but its copy {self.target} was made from id"
            f" {self.former}; raymirror did not delete the copy, because {self.what}: check that"
            f" {self.flow.source}.bootstrap.servers lead to the right cluster in its present state; if you do not need"
            f" the copy, delete topic {self.target} on {self.flow.target} by hand, and raymirror creates it again"
        )


class ClusterChanged(Event, frozen=True, kw_only=True, tag="cluster_changed"):
    """An address of a cluster leads to another cluster; raymirror sends no request to that cluster."""

    severity: ClassVar[str] = "error"
    cluster: str
    found: str
    what: str

    @property
    def about(self) -> str:
        """Name the cluster's alias."""
        return self.cluster

    def text(self) -> str:
        return f"{self.cluster}: {self.what}"


class CopyDeleted(Event, frozen=True, kw_only=True, tag="copy_deleted"):
    """The copy of a previous topic of the same name was deleted, as `re-create` says; raymirror creates it again."""

    severity: ClassVar[str] = "warning"
    topic: str
    target: str
    former: str
    present: str

    @property
    def about(self) -> str:
        """Name the source topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: re-created on the source (id {self.former}, now {self.present}): raymirror deleted its copy"
            f" {self.target} and creates it again, as raymirror.topic.recreated = re-create says"
        )
