"""Events of topics and clusters that are not the ones that the stored positions name."""

from typing import ClassVar

from engine.core.events.event_base import Event, LaneEvent


class IdentityChanged(LaneEvent, frozen=True, kw_only=True, tag="identity_changed"):
    """A topic, a cluster or a producer id is not the one that the position was written for."""

    severity: ClassVar[str] = "error"
    what: str
    expected: str
    found: str

    def text(self) -> str:
        right = "; raymirror.topic.recreated = append or re-create would go on"
        if self.what.endswith("cluster's id"):
            right = (
                f"; let the alias lead to cluster {self.expected} again; if the cluster was replaced on purpose, give"
                " the new one an alias of its own, or delete the positions topic and the copies"
            )
        return f"{self.lane}: {self.what} changed from {self.expected} to {self.found}; the lane stopped{right}"


class TopicRenewed(LaneEvent, frozen=True, kw_only=True, tag="topic_renewed"):
    """A lane continues although its source topic, target topic or both were re-created; `choice`: the configured value.

    `copied`: the next source offset after everything copied before; of the former source topic if that was re-created.
    """

    severity: ClassVar[str] = "warning"
    source_renewed: bool
    target_renewed: bool
    choice: str
    copied: int
    source_offset: int
    target_offset: int

    def text(self) -> str:
        source = f"the source topic was made anew: of the former one nothing from offset {self.copied} on was copied; "
        target = "the target topic was made anew: what was copied before is not there; "
        return (
            f"{self.lane}: {source * self.source_renewed}{target * self.target_renewed}copying goes on at"
            f" source offset {self.source_offset}, target offset {self.target_offset}, as raymirror.topic.recreated ="
            f" {self.choice} says"
        )


class CopyKept(Event, frozen=True, kw_only=True, tag="copy_kept"):
    """A copy was not deleted although `re-create` is set: the source may be another cluster, or a restored one."""

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
            f"{self.topic}: its id on the source is {self.present}, and its copy {self.target} was made of"
            f" {self.former}; the copy was not deleted, because {self.what}: check that"
            f" {self.flow.source}.bootstrap.servers lead to the right cluster in its present state; if the copy may go,"
            f" delete topic {self.target} on {self.flow.target} by hand, and it is made again"
        )


class ClusterChanged(Event, frozen=True, kw_only=True, tag="cluster_changed"):
    """An address of a cluster leads to another cluster, which gets no request."""

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
    """The copy of a former topic of the same name was deleted, as `re-create` says; it is created again."""

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
            f"{self.topic}: made anew on the source (id {self.former}, now {self.present}): its copy {self.target} was"
            " deleted and is made anew, as raymirror.topic.recreated = re-create says"
        )
