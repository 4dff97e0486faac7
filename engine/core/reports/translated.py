"""The offsets of one group on both clusters, as `raymirror translate` finds them."""

import msgspec


class TranslationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a group. `target_offset` is -1 if there is no answer, and `why_not` says why.

    `stored`: the group's committed offset on the target, -1 for none. `mirrored`: false if the flow does not copy the
    topic. `exact`: false if only an offset before the true one is known, from MM2's syncs: the group would read some
    records again. `skips`: the target's retention has deleted records that the group has not read, and the source has
    them. `as_of_ms`: when the checkpoint of both offsets was written (Unix time), -1 if the source answered.
    """

    topic: str
    partition: int
    source_offset: int
    target_topic: str = ""
    target_offset: int = -1
    how: str = ""
    why_not: str = ""
    stored: int = -1
    mirrored: bool = True
    exact: bool = True
    skips: bool = False
    as_of_ms: int = -1

    @property
    def equal(self) -> bool:
        """Whether the group's offset on the target is exactly its translated source offset."""
        return self.target_offset >= 0 and self.stored == self.target_offset


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment; `source_state` and `target_state` say whether it has members on that cluster.

    `source`: why the source could not be asked; its offsets are then those of the last checkpoints.
    """

    flow: str
    group: str
    source_state: str
    target_state: str
    rows: tuple[TranslationRow, ...]
    source: str = ""

    @property
    def answered(self) -> bool:
        """Whether every partition that the flow copies has an answer."""
        return all(row.target_offset >= 0 for row in self.rows if row.mirrored)

    @property
    def exact(self) -> bool:
        """Whether every answer is exact."""
        return all(row.exact for row in self.rows if row.mirrored)

    @property
    def equal(self) -> bool:
        """Whether, in every partition that the flow copies, the group's offset on the target is the translated one."""
        return all(row.equal for row in self.rows if row.mirrored)
