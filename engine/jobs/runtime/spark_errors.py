"""Says in one line why Spark failed."""

import re

from engine.base.redaction import redacted


def reason_of(error: BaseException) -> str:
    """Return the innermost cause that an error of Spark names, in one line."""
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", str(error), re.MULTILINE)
    return redacted(causes[-1] if causes else str(error).splitlines()[0])
