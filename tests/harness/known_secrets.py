"""Makes the process forget the secrets that earlier tests have resolved: a password of one may be a word of another."""

from engine.base import redaction


def forget_secrets() -> None:
    """Forget all values."""
    with redaction._lock:
        redaction._kept.clear()
        redaction._passing.clear()
        redaction._search, redaction._is_stale = None, False
