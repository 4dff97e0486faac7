"""Writes notes on this machine that a mirror is ending and how it ended, so that commands can report it at once.

A command that asks a Ray during its shutdown waits for 30 s and gets no answer. So `run` notes that its mirror ends as
soon as it sees that, and at the end the last state of the mirror. For a mirror on a Ray cluster that continues, it
notes nothing before the mirror has stopped: until then other processes may follow it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from actors.local import session
from actors.local.ended import EndedMirror
from actors.model.states import Desired
from actors.model.status import FlowStatus, MirrorStatus
from actors.observability.sentences import flow_line
from engine.base.clock import wall_ms


class EndNotes:
    """Writes the notes of `run` about the end of its mirror. `local`: the mirror's Ray ends with this process."""

    def __init__(self, namespace: str, config_path: str, *, local: bool) -> None:
        self._namespace, self._config_path, self._local = namespace, config_path, local
        self._said = ""
        self._ending = self._stopped = False
        self._digest = ""
        self._failed_over: tuple[str, ...] = ()

    def note_status(self, status: MirrorStatus) -> None:
        """Take a status; note the end when it begins."""
        self._said = "; ".join(flow_line(flow, status.at_ms) for flow in status.flows)
        self._stopped = status.phase == "stopped"
        self._note_config(status.config_path, status.config_digest)
        self._note_failed_over(tuple(flow.flow for flow in status.flows if self._is_failed_over(flow)))
        if status.phase in session.ENDING_PHASES:
            self.ends()

    def _note_config(self, path: str, digest: str) -> None:
        """Note that a reload has changed the configuration: commands find the mirror of a file by its digest."""
        known, self._digest = self._digest, digest
        if known not in ("", digest):
            self._config_path = path
            if self._local:
                self._note(config_path=path, config_digest=digest)

    def _is_failed_over(self, flow: FlowStatus) -> bool:
        """Whether a failover stopped a flow; a new supervisor only knows that the flow is stopped."""
        return flow.failed_over or (flow.desired is Desired.STOPPED and flow.flow in self._failed_over)

    def _note_failed_over(self, flows: tuple[str, ...]) -> None:
        """Note which flows are failed over: if this process is killed, no command may advise to copy them again."""
        known, self._failed_over = self._failed_over, flows
        if self._local and flows != known:
            self._note(failed_over=flows)

    def ends(self) -> None:
        """Note that the mirror ends: from now on it takes no commands."""
        if self._local and not self._ending:
            self._ending = True
            self._note(ending_ms=wall_ms(), said=self._said)

    def ended(self, *, in_order: bool) -> None:
        """Note how the mirror ended, if it has stopped or ends with this process, which stops following it now."""
        if not (self._local or self._stopped):
            return
        ended = EndedMirror(
            namespace=self._namespace,
            config_path=self._config_path,
            at_ms=wall_ms(),
            in_order=in_order,
            said=self._said,
            failed_over=self._failed_over,
            config_digest=self._digest,
        )
        with self._warning():
            session.note_ended(ended, os.environ)

    def _note(self, **facts: object) -> None:
        with self._warning():
            session.note(self._namespace, os.getpid(), os.environ, **facts)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Print a warning if a note cannot be written; the mirror ends all the same."""
        try:
            yield
        except OSError as error:
            folder = session.folder(os.environ)
            text = f"mirror {self._namespace}: its state cannot be noted in {folder}: {error}"
            sys.stderr.write(f"warning: {text}\n")
