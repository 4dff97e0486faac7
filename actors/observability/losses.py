"""Says in a sentence what a failover would lose, for `raymirror dr preview` and the typed interface."""

from actors.observability.instants import clock_text
from actors.observability.lagging import bytes_text
from engine.flow.surveys.dr_preview import DrPreview
from policies.words import counted


def loss_text(found: DrPreview) -> str:
    """Say in a sentence what a failover would lose now; if the flow was stopped by one before, that comes first."""
    if found.failed_over_ms >= 0:
        return f"it was failed over or switched over at {clock_text(found.failed_over_ms)} already; {_loss_text(found)}"
    return _loss_text(found)


def _loss_text(found: DrPreview) -> str:
    if found.source:
        return f"the source does not answer ({found.source}), so what a failover would lose is not known"
    records, size = sum(one.records for one in found.losses), sum(one.bytes for one in found.losses)
    unknown = sum(one.unknown for one in found.losses)
    least = "" if all(one.is_exact for one in found.losses) else "about "
    besides = f", and what is in {counted(unknown, 'partition')} is not known" if unknown else ""
    left_out = sum(one.left_out for one in found.losses)
    refused = f"{counted(left_out, 'record')} that the target refused (see: raymirror quarantine list)"
    known = " of what is known" if unknown else ""
    if not records:
        what = f"{refused}, and nothing else" if left_out else "nothing"
        return f"a failover now would lose {what}{known}{besides}"
    oldest = max(one.seconds for one in found.losses)
    age = f", the oldest {oldest:.1f} s old" if oldest >= 0 else ""
    more = f", and {refused}" if left_out else ""
    return f"a failover now would lose {least}{counted(records, 'record')} ({bytes_text(size)}){age}{more}{besides}"
