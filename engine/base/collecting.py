"""Tunes the garbage collector of a copier process: it skips what lasts, and full ones wait for a quiet moment."""

import gc

from engine.base.clock import now_s

_YOUNG, _MIDDLE, _NEVER = 400, 5, 1_000_000
"""Collections of the two young generations stay below a millisecond; Python starts none of the oldest by itself."""
_DUE_AFTER = 10
"""Collections of the middle generation after which a full one is worth its time: Python's own default."""
_QUIET_PASSES = 3
"""Quiet passes in a row before a full collection: a busy loop may have one in which it only waited."""
_LATEST_S = 600.0
"""Seconds after which a full collection does not wait for a quiet moment any longer."""
_REST_OF_ALL = 1000
"""How many times as long as it took, a collection of everything is followed by none: of tens of thousands of lanes it
takes a second."""


def spare_what_lasts() -> None:
    """Exclude all present objects from later collections, and let no full collection start by itself.

    A full collection visits every object and blocks the event loop: for 15 to 30 ms with the imports of a copier's
    process, and for 14 ms with the objects of a thousand lanes. Call this once, after the process has started and
    before it copies; from then on `QuietCollector` collects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)


class QuietCollector:
    """Runs full collections at moments when nothing is copied; does nothing where Python runs them itself.

    References alone free nearly everything that a copier creates. What is left are cycles, such as closed connections
    and lanes that have left. So it harms nothing if they wait. What a collection leaves alive is excluded from the next
    ones, else each would visit all lanes again; at long intervals one visits everything.
    """

    def __init__(self) -> None:
        self._collected_s = now_s()
        self._all_from_s = now_s() + _LATEST_S
        self._quiet_passes = 0

    def notice(self, *, is_quiet: bool) -> None:
        """Note a pass of the upkeep; collect if enough was created, and passes were quiet or the last time is old."""
        self._quiet_passes = self._quiet_passes + 1 if is_quiet else 0
        if gc.get_threshold()[2] != _NEVER or gc.get_count()[2] < _DUE_AFTER:
            return
        if self._quiet_passes >= _QUIET_PASSES or now_s() - self._collected_s >= _LATEST_S:
            self._collect()

    def _collect(self) -> None:
        began_s = now_s()
        is_of_all = began_s >= self._all_from_s and self._quiet_passes >= _QUIET_PASSES
        if is_of_all:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._collected_s = now_s()
        if is_of_all:
            self._all_from_s = self._collected_s + max(_LATEST_S, _REST_OF_ALL * (self._collected_s - began_s))
