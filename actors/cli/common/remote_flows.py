"""The flows of a mirror behind `--url` that a command means."""

from typing import TYPE_CHECKING

from actors.cli.common.questions import BadQuestion

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror


def flows_behind(mirror: "HttpMirror", name: str | None) -> tuple[str, ...]:
    """Return the flow with this name, or all flows for None. Raises BadQuestion, MirrorLost, RequestRefused."""
    there = tuple(flow.flow for flow in mirror.status().flows)
    found = tuple(one for one in there if name in (None, one))
    if not found:
        raise BadQuestion(
            f"the mirror at {mirror.namespace} has no flow {name!r}", f"it has {', '.join(there) or 'none'}"
        )
    return found


def one_flow_behind(mirror: "HttpMirror", name: str | None) -> str:
    """Return the flow with this name, or the only flow. Raises as `flows_behind` does."""
    found = flows_behind(mirror, name)
    if len(found) > 1:
        raise BadQuestion(f"there are {len(found)} flows", f"choose one: --flow {' or '.join(map(repr, found))}")
    return found[0]
