"""Texts that tell people how an offset was translated, or why it was not; programs get the short codes."""

from engine.core.offset_map.offset_map import CLAMPED, NEAR, How

_WORDS = {
    How.RUN.value: "the same record",
    How.REFINED.value: "the next record that was copied",
    How.END.value: "the end of the copy",
    How.BEYOND.value: "not copied yet",
    How.BEFORE.value: "the offset map begins later",
    How.UNREAD.value: "the offset map is being read",
    How.STALE.value: "the offset map is not written up to there yet",
    NEAR: "MM2's sync: the same record or one before it",
    CLAMPED: "the start of the target's log: retention has deleted what was before",
}


def found_text(code: str) -> str:
    """Return the words for a code; a code that is words already is returned unchanged."""
    return _WORDS.get(code, code)
