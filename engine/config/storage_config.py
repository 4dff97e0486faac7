"""Reads `raymirror.storage`, the place of all data that is not a topic record, and how long that data is kept."""

from engine.config.property_reader import PropertyReader
from engine.config.settings import AUDIT_DAYS
from engine.config.storage import KEY, BadStorage, Storage


def read_storage(reader: PropertyReader) -> Storage | None:
    """Return the storage that the file names, None if it names none. Raises ConfigError."""
    text = reader.text(KEY, "")
    if not text:
        return None
    try:
        return Storage.parse(text)
    except BadStorage as bad:
        raise reader.error(KEY, bad.wrong, bad.right) from None


def read_audit_days(reader: PropertyReader) -> int:
    """Return how many days the audit trail is kept; 0 means for ever. Raises ConfigError."""
    return reader.number("raymirror.audit.retention.days", AUDIT_DAYS, 0, 36_500)
