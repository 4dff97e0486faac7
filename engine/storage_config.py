"""Where everything is kept that is no record of a topic: `raymirror.storage`."""

from engine.jobs.storage import BadStorage, Storage
from engine.property_reader import PropertyReader

KEY = "raymirror.storage"


def read_storage(reader: PropertyReader) -> Storage | None:
    """Return the storage that the file names, None where it names none. Raises ConfigError."""
    text = reader.text(KEY, "")
    if not text:
        return None
    try:
        return Storage.parse(text)
    except BadStorage as bad:
        raise reader.error(KEY, bad.wrong, bad.right) from None
