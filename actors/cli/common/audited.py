"""Writes what a command has changed into the audit trail, if the mirror has one."""

import socket
import sys
from collections.abc import Sequence

from actors.cli.common.user import user_name
from engine.base.clock import wall_ms
from engine.config.settings import MirrorConfig
from engine.flow.config_sync.audit import AuditFailed, AuditRow, only_batch
from engine.jobs.audit.store import audit_store


def who(command: str) -> str:
    """Return who runs a command, and where."""
    return f"{user_name()} on {socket.gethostname()}, raymirror {command}"


async def write_audit(config: MirrorConfig, command: str, rows: Sequence[AuditRow]) -> bool:
    """Store rows; if that fails, say so on standard error, and return False."""
    store = audit_store(config)
    if store is None or not rows:
        return True
    try:
        await store.write(only_batch(rows))
        await store.care(wall_ms())
    except AuditFailed as failure:
        print(f"raymirror {command}: done, but: {failure}", file=sys.stderr)
        return False
    return True
