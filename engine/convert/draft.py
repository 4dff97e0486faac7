"""The draft of a new configuration: settings in the order they were found, and what was dropped."""

from engine.config.settings import ConfigWarning
from engine.convert.model import Carried, Dropped, Given, Origin


class Draft:
    """Collects settings by key; of two different values for one key the first wins, and the other is dropped."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.settings: dict[str, Carried] = {}
        self.dropped: list[Dropped] = []
        self.flows: list[str] = []
        self.aliases: list[str] = []
        """The clusters, if the input lists them; else those of the flows."""
        self.providers: dict[str, str] = {}
        """The classes of the config providers that the input declares, by their names."""
        self.notes: list[ConfigWarning] = []

    def declare(self, provider: str, class_name: str) -> None:
        """Note a config provider of the input."""
        self.providers[provider] = class_name

    def note(self, key: str, what: str) -> None:
        """Note at the top of the new file what its user must know about a key."""
        self.notes.append(ConfigWarning(0, key, what))

    def carry(self, key: str, value: Given, why: str = "") -> None:
        """Set a key to a value of the input."""
        there = self.settings.get(key)
        if there is None:
            self.settings[key] = Carried(key, value.text, value.origin, why)
        elif there.value != value.text:
            self.drop(value.origin, f"{there.origin} sets it to another value, and a mirror has one value for it", key)

    def add_flow(self, flow: str, origin: Origin) -> None:
        """Switch a flow on, once."""
        if flow not in self.flows:
            self.flows.append(flow)
            self.change(f"{flow}.enabled", "true", origin, "")

    def replace(self, key: str, value: Given) -> None:
        """Set a key to a value of the input, whatever it was before."""
        self.settings.pop(key, None)
        self.carry(key, value)

    def change(self, key: str, text: str, origin: Origin, why: str) -> None:
        """Set a key to a value that is not in the input, or not in this form; `why` says so."""
        self.carry(key, Given(text, origin), why)

    def drop(
        self, origin: Origin, why: str, key: str = "", instead: str = "", *, empties: tuple[str, ...] = ()
    ) -> None:
        """Drop something that is lost; `key` is the key, the alias or the flow that it is about."""
        self.dropped.append(Dropped(origin, why, instead, key, empties=empties))

    def drop_needless(self, origin: Origin, why: str, key: str = "") -> None:
        """Drop something without which nothing is lost."""
        self.dropped.append(Dropped(origin, why, near=key, needless=True))
