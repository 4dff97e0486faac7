"""The security settings of one cluster by Kafka's names, as typed values; an error names the key, never the value."""

import re
from collections.abc import Collection, Mapping

from engine.base.errors import MirrorError

_MOST_INT = 2**31 - 1
_WORD = re.compile(r"[\w.\-]{1,40}")


class BadSecurity(MirrorError):
    """A security setting that cannot be used: its key, what is wrong, what would be right. No text has its value."""

    def __init__(self, key: str, wrong: str, right: str) -> None:
        super().__init__(key, wrong, right)
        self.key, self.wrong, self.right = key, wrong, right

    def __str__(self) -> str:
        return f"{self.key}: {self.wrong}; {self.right}"


def shown(value: str) -> str:
    """Return a value for an error if it is one short word; a line that swallowed the next one may have a password."""
    return value if _WORD.fullmatch(value) else "this value"


class SecuritySettings:
    """Settings by Kafka's names. `hidden`: keys that are set, but whose values are not known yet (placeholders).

    Texts of this object have no value. Every method that converts raises BadSecurity.
    """

    def __init__(self, values: Mapping[str, str], hidden: Collection[str] = ()) -> None:
        self._values = {key: value.strip() for key, value in values.items()}
        self.hidden = frozenset(hidden)

    def __repr__(self) -> str:
        return f"SecuritySettings({', '.join(sorted(self._values))})"

    def __contains__(self, key: str) -> bool:
        return key in self._values or key in self.hidden

    def fingerprint(self, begin: str) -> frozenset[tuple[str, str]]:
        """Return the settings whose keys begin so, to compare two logins; it has secrets, so never show it."""
        return frozenset(item for item in self._values.items() if item[0].startswith(begin))

    def known(self, key: str) -> str | None:
        """Return a value; None if the key is not set, or if its value is not known yet."""
        return self._values.get(key)

    def text(self, key: str, default: str = "") -> str:
        """Return a value, the default if the key is not set."""
        return self._values.get(key, default)

    def words(self, key: str) -> list[str]:
        """Return a comma-separated list; empty if the key is not set."""
        return [word.strip() for word in self.text(key).split(",") if word.strip()]

    def number(self, key: str, default: float, least: float = 0, most: float = _MOST_INT) -> float:
        """Return a number within bounds."""
        text = self._values.get(key, "")
        if not text:
            return default
        try:
            found = float(text)
        except ValueError:
            found = float("nan")
        if not least <= found <= most:
            right = f"give one; Kafka's default is {default:g}"
            raise BadSecurity(key, f"is no number from {least:g} to {most:g}", right)
        return found

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean as Kafka reads one."""
        text = self._values.get(key, "").lower()
        if text not in ("", "true", "false"):
            raise BadSecurity(key, "is neither true nor false", "write true or false")
        return text == "true" if text else default
