"""Where everything is kept that is no record of a topic, `raymirror.storage`, and for how long."""

from engine.jobs.storage import KEY, BadStorage, Storage
from engine.property_reader import PropertyReader
from engine.settings import AUDIT_DAYS


def read_storage(reader: PropertyReader) -> Storage | None:
    """Return the storage that the file names, None where it names none. Raises ConfigError."""
    text = reader.text(KEY, "")
    if not text:
        return None
    try:
        return Storage.parse(text)
    except BadStorage as bad:
        raise reader.error(KEY, bad.wrong, bad.right) from None


def read_audit_days(reader: PropertyReader) -> int:
    """Return for how many days the audit trail is kept, 0: for ever. Raises ConfigError."""
    return reader.number("raymirror.audit.retention.days", AUDIT_DAYS, 0, 36_500)
