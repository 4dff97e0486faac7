"""A mirror followed by this process: started or joined, shown, and drained when nobody follows it any more."""

import sys
from contextlib import redirect_stdout

from actors import launch
from actors.cli import exits
from actors.ending import EndNotes
from actors.follow import follow, leave, stop_signals
from actors.status import MirrorStatus
from actors.view import open_view


def run_here(plan: launch.LaunchPlan, *, json: bool, detach: bool) -> int:
    """Run until the mirror has stopped or a signal came. Exit code 0 after a drain, 1 if it was not in order."""
    connection = launch.connect(plan)
    in_order = False
    try:
        with (
            stop_signals() as asked,
            open_view(json=json) as view,
            launch.launched(connection, plan, view.say) as mirror,
        ):
            notes = EndNotes(plan.spec.namespace, plan.spec.config.path, local=connection.local, warn=_warn)
            try:
                status = follow(mirror, view, asked, _has_started if detach else None, notes.hear)
                if status is not None and status.phase == "stopped":
                    in_order = not status.refused
                elif detach:
                    in_order = True
                else:
                    notes.ends()
                    in_order = leave(mirror, plan.spec.drain_s, view)
            finally:
                notes.ended(in_order=in_order)
    finally:
        if not in_order and connection.logs is not None:
            print(f"the logs of Ray and of the copiers are in {connection.logs}", file=sys.stderr)
        with redirect_stdout(sys.stderr):  # Ray prints what it has held back: no line of JSON
            connection.close(keep_logs=not in_order)
    return exits.OK if in_order else exits.FAILED


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def _has_started(status: MirrorStatus) -> bool:
    return status.phase != "starting"
