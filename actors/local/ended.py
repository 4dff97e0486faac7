"""The end note of a mirror on its machine, and the text of commands: how it ended, and how to start it again."""

import msgspec


class EndedMirror(msgspec.Struct, frozen=True, kw_only=True):
    """How a mirror ended. `said`: the state of each flow. `in_order`: everything was drained and written."""

    namespace: str
    config_path: str
    at_ms: int
    in_order: bool
    said: str = ""
    killed_pid: int = 0
    """The process that died without writing a note; 0: the process wrote this note itself."""
    failed_over: tuple[str, ...] = ()
    """Flows that a failover stopped, before the mirror ended or since."""
    config_digest: str = ""

    def text(self, mirror: str, now_ms: int) -> str:
        """Say how the mirror of a name ended, as of an instant (Unix ms), and what starts it again."""
        if self.killed_pid:
            return (
                f"process {self.killed_pid} has ended without stopping mirror {mirror} in order (it was killed, or the"
                f" machine went down); {self._advice('continue from its positions')}"
            )
        how = "" if self.in_order else " not in order"
        stood = f"; its last state: {self.said}" if self.said else ""
        ago_s = max(0, now_ms - self.at_ms) / 1000
        return f"mirror {mirror} ended{how} {ago_s:.0f} s ago{stood}; {self._advice('start it again')}"

    def _advice(self, usual: str) -> str:
        """Say how to start the mirror again. After a failover consumers are on the target, and `run` copies nothing."""
        run = f"raymirror run {self.config_path}"
        if not self.failed_over:
            return f"{usual} with: {run}"
        flows = " and ".join(self.failed_over)
        return (
            f"{flows} {'was' if len(self.failed_over) == 1 else 'were'} failed over, and {run} does not copy that"
            ' again: see "Failing over" in README.md'
        )
