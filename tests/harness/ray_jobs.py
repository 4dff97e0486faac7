"""Runs `ray job submit` and `ray job stop` as a user types them, and reads the state of the job."""

import json
import secrets
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DEADLINE_S = 120.0
_POLL_S = 0.1
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class Jobs:
    """The jobs of one cluster, reached through its dashboard at `url`. `ray` runs one of Ray's commands."""

    def __init__(self, url: str, token_file: str | None, ray: Callable[..., str]) -> None:
        self.url = url
        self._token_file, self._ray = token_file, ray

    def submit(
        self,
        *entrypoint: str,
        working_dir: Path | None = None,
        env_vars: Mapping[str, str] | None = None,
        submission_id: str | None = None,
    ) -> str:
        """`ray job submit --no-wait`; return the submission id. `env_vars` go into its runtime environment."""
        chosen = submission_id or f"test-{secrets.token_hex(4)}"
        folder = [f"--working-dir={working_dir}"] if working_dir is not None else []
        runtime_env = json.dumps({"env_vars": dict(env_vars or {})})
        self._ray(
            *("job", "submit", "--no-wait", f"--address={self.url}", f"--submission-id={chosen}"),
            *(f"--runtime-env-json={runtime_env}", *folder, "--", *entrypoint),
        )
        return chosen

    def stop(self, submission_id: str) -> None:
        """`ray job stop`: SIGTERM to the entrypoint, SIGKILL after its wait time; return when it has ended."""
        self._ray("job", "stop", f"--address={self.url}", submission_id)

    def status(self, submission_id: str) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""
        return str(self._get(f"/api/jobs/{submission_id}")["status"])

    def log(self, submission_id: str) -> str:
        """What the entrypoint has printed."""
        return str(self._get(f"/api/jobs/{submission_id}/logs")["logs"])

    def until(self, submission_id: str, *statuses: str) -> str:
        """Wait for one of these statuses and return it; fails with the log when it ends in another."""
        give_up_at = time.monotonic() + DEADLINE_S
        while (status := self.status(submission_id)) not in statuses:
            if status in _ENDED or time.monotonic() > give_up_at:
                log = self.log(submission_id)[-4000:]
                raise AssertionError(f"{submission_id} is {status}, not {' or '.join(statuses)}; it printed:\n{log}")
            time.sleep(_POLL_S)
        return status

    def wait_ready(self) -> None:
        """Wait until jobs can be submitted: the dashboard answers, and the head's agent, which runs them, is known."""
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            try:
                self._get("/api/jobs/")
            except OSError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path)
        if self._token_file is not None:
            request.add_header("Authorization", f"Bearer {Path(self._token_file).read_text()}")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)
