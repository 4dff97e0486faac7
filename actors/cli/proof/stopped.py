"""Asks the mirror on this machine that runs with a file, if any, which partitions are stopped, for a proof report."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from actors.config.config_ref import digest_of
from actors.local import session
from actors.local_socket.client import status_of
from engine.base.errors import MirrorError
from engine.jobs.proof.model import ProofReport

Lane = tuple[str, str, int]
"""Flow, source topic and partition."""


def stopped_lanes(config: Path, env: Mapping[str, str]) -> dict[Lane, str]:
    """Return why each stopped partition is stopped; empty if no mirror with this file answers."""
    with suppress(MirrorError, OSError):
        digest = digest_of(config.read_bytes())
        for state in session.living(env):
            if state.config_digest == digest:
                return _asked(session.find(None, state.namespace, env))
    return {}


def _asked(place: session.MirrorPlace) -> dict[Lane, str]:
    """Ask the mirror of a place. Raises MirrorLost."""
    status = status_of(place, lanes=True)
    lanes = status.lanes if status is not None else ()
    return {(one.set_id.rpartition("/")[0], *one.lane): one.reason for one in lanes if one.state == "failed"}


def with_stopped(report: ProofReport, stopped: Mapping[Lane, str]) -> ProofReport:
    """Write into a report which of its partitions are stopped, and why."""
    flow = str(report.flow)
    lanes = tuple(replace(one, stopped=stopped.get((flow, one.topic, one.partition), "")) for one in report.lanes)
    return replace(report, lanes=lanes)
