"""The cases of the bench: which system copies, whether the bulk is there, and what is set about it."""

from collections.abc import Mapping

import msgspec

MIB = 1024 * 1024


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case. `has_class`: the hot topic is `high`; `is_capped`: the bulk has a limit of bandwidth."""

    name: str
    is_mm2: bool = False
    has_bulk: bool = True
    has_class: bool = False
    is_capped: bool = False

    def settings(self, flow: str, hot: str, bulk: str, cap_mib: float) -> Mapping[str, str]:
        """Return the properties of raymirror that make the case."""
        found = {}
        if self.has_class:
            found[f"{flow}.raymirror.priority"] = f"{hot}@high"
        if self.is_capped:
            found[f"{flow}.raymirror.bandwidth.bytes"] = f"{bulk}@{int(cap_mib * MIB)}"
        return found


ALONE, BESIDE, CLASSES, CAPPED, CAPPED_CLASSES = "alone", "beside", "classes", "capped", "capped-classes"
MM2_ALONE, MM2_BESIDE = "mm2-alone", "mm2-beside"
CASES = {
    case.name: case
    for case in (
        Case(name=ALONE, has_bulk=False),
        Case(name=BESIDE),
        Case(name=CLASSES, has_class=True),
        Case(name=CAPPED, is_capped=True),
        Case(name=CAPPED_CLASSES, has_class=True, is_capped=True),
        Case(name=MM2_ALONE, is_mm2=True, has_bulk=False),
        Case(name=MM2_BESIDE, is_mm2=True),
    )
}
