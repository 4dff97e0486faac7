"""Names the kinds of runs: commands of the command line that requests start, and that `--url` has started."""

import enum


class RunKind(enum.StrEnum):
    """The commands that a request may start."""

    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    FAILBACK = "failback"
    DRILL = "drill"
    RESUME = "resume"
    """Goes on with a switchover that has not ended."""
    ABORT = "abort"
    """Takes a switchover back."""
    VERIFY = "verify"
    APPLY = "apply"
    REPLAY = "replay"
    """Appends refused records to their copies."""
    DROP = "drop"
    """Gives refused records up."""
    TRANSLATE = "translate"
    """Commits the translated offsets of a group on the target."""
    MOVE = "move"
    """Moves a consumer group to the target."""
    MOVE_UNDO = "move-undo"
    MOVE_TOPICS = "move-topics"
    """Moves all producers of topics to the target."""
