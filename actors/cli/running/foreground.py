"""Follows a mirror in this process: starts or joins it, shows its status, and drains it when this process ends."""

import errno
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

from actors.cli.common import exits
from actors.cli.common.flags import warn
from actors.cli.common.output_file import OutputFile
from actors.cli.common.steps import StartSteps
from actors.cli.running.housekeeping import Housekeeping
from actors.local.end_notes import EndNotes
from actors.local.ending import FULL, LOST, drop_lost_output, drop_unread_pipe
from actors.local.reservation import Reservation
from actors.local.session import short_name
from actors.model.status import MirrorStatus
from actors.observability.view import View, open_view
from actors.ray import launch
from actors.ray.connect import RayConnection
from actors.ray.follow import EndRequest, follow, leave, stop_signals
from actors.ray.mirror import Mirror
from policies.placement.sites import missing_site, missing_sites


def run_here(
    plan: launch.LaunchPlan,
    *,
    json: bool,
    detach: bool,
    log_file: Path | None = None,
    steps: StartSteps | None = None,
    reservation: Reservation | None = None,
) -> int:
    """Run until the mirror has stopped or a signal came. Exit code 0 after a drain, 1 if it did not end in order.

    `log_file` gets the output, bounded in size. `steps` prints the progress of the start. `reservation` holds the
    mirror's name; it is released as soon as the mirror has ended, because its Ray takes some seconds more.
    """
    steps = steps or StartSteps(quiet=True)
    in_order = False
    with ExitStack() as stack:
        output = stack.enter_context(OutputFile(log_file)) if log_file is not None else None
        steps.say(f"joining the Ray cluster at {plan.address}" if plan.address else "starting Ray on this machine")
        connection = _connect(plan, steps)
        for site in missing_sites(plan.sites, connection.ray.nodes() if plan.sites else ()):
            warn(f"{missing_site(site)}; until then its copiers wait")
        asked = stack.enter_context(stop_signals())  # over the end of Ray too: a closed terminal often signals twice
        try:
            steps.say(f"starting the supervisor of mirror {short_name(plan.spec.namespace)}")
            with open_view(json=json) as seen:
                view = LastingView(seen, asked, Housekeeping(output, connection.logs))
                with launch.launched(connection, plan, view) as mirror:
                    in_order = _follow_to_end(plan, connection, mirror, view, asked, detach=detach)
        finally:
            if reservation is not None:
                reservation.release()
            _disconnect(connection, in_order=in_order)
    return exits.OK if in_order else exits.FAILED


def _connect(plan: launch.LaunchPlan, steps: StartSteps) -> RayConnection:
    try:
        return launch.connect(plan)
    except KeyboardInterrupt:  # SIGTERM and SIGHUP too
        steps.say("the start was stopped: no mirror was started")
        raise


def _follow_to_end(
    plan: launch.LaunchPlan, connection: RayConnection, mirror: Mirror, view: View, asked: EndRequest, *, detach: bool
) -> bool:
    """Follow the mirror until it ends or this process leaves it; note how it ended. Return whether it was in order."""
    notes = EndNotes(plan.spec.namespace, plan.spec.config.path, local=connection.local)
    in_order = False
    try:
        status = follow(mirror, view, asked, listener=notes, until_started=detach)
        if status is not None and status.phase == "stopped":
            in_order = True  # all is drained; whether it was to run is another question
            if status.refused:
                view.say(f"mirror {short_name(plan.spec.namespace)} has ended: {status.refused}")
                return False
        elif detach:
            in_order = True
        else:
            notes.ends()
            in_order = leave(mirror, plan.spec.drain_s, view)
    finally:
        notes.ended(in_order=in_order)
    return in_order


class LastingView:
    """A view that survives the loss of its output: a line that cannot be printed never ends a mirror without a drain.

    Full disk: lines are lost. Closed terminal: the mirror continues without output (a signal, if one came too, ends
    it). Pipe whose reader has ended: no process follows the mirror any more, so this asks it to end in order.
    """

    def __init__(self, view: View, asked: EndRequest, housekeeping: Housekeeping | None = None) -> None:
        self._view, self._asked, self._housekeeping = view, asked, housekeeping

    def show(self, status: MirrorStatus) -> None:
        with self._outlasting():
            self._view.show(status)

    def say(self, text: str) -> None:
        with self._outlasting():
            self._view.say(text)

    @contextmanager
    def _outlasting(self) -> Iterator[None]:
        try:
            yield
            if self._housekeeping is not None:
                self._housekeeping.run_due()
        except OSError as error:
            if error.errno in FULL:
                return  # the line is lost; the next one, a second later, may have room
            if error.errno not in LOST:
                raise
            drop_lost_output()
            if error.errno == errno.EPIPE:
                drop_unread_pipe()
                self._asked.set()


def _disconnect(connection: RayConnection, *, in_order: bool) -> None:
    with redirect_stdout(sys.stderr):  # Ray prints held-back lines now; they are no JSON
        connection.close(keep_logs=not in_order)
    if not in_order and connection.logs is not None:
        print(f"logs of Ray and of the copiers: {connection.logs}", file=sys.stderr)
