"""Makes a draft load: what raymirror's own checks refuse is dropped with their reason, until nothing is refused."""

from collections.abc import Iterable, Iterator
from itertools import permutations

import msgspec

from engine.base.errors import ConfigError
from engine.config.config import read_with_rulings
from engine.config.config_errors import parts
from engine.config.file.properties import Properties, Property
from engine.config.secrets import SECURITY_KEYS
from engine.config.settings import ConfigWarning, MirrorConfig
from engine.convert.clients import SERVERS
from engine.convert.draft import Draft
from engine.convert.model import Carried, Dropped, Options
from engine.convert.references import kept_references
from policies.keys.kafka_keys import KeyFate, Ruling

_FILE = "mirror.yaml"
_STAND_IN = "127.0.0.1:1"
"""The address of a cluster whose address is a reference, while the rest is checked."""
_STORES = ("ssl.truststore.", "ssl.keystore.")
_SELECTING = (
    "topics",
    "topics.exclude",
    "topic.filter.class",
    "replication.policy.class",
    "replication.policy.separator",
    "transforms",
    "predicates",
)
"""Keys without which a flow would copy other topics or records than meant, or to other names."""
_SELECTING_GROUPS = ("groups", "groups.exclude", "group.filter.class")
_TOLERATE = "; or set raymirror.unsupported"
_IDLE_ADVICE = ("remove the key", "remove the key if you want that")


class Settled(msgspec.Struct, frozen=True):
    """A configuration that loads: its settings, what was dropped, and how it differs from MM2."""

    settings: dict[str, Carried]
    dropped: tuple[Dropped, ...]
    aliases: tuple[str, ...]
    flows: tuple[str, ...]
    notes: tuple[ConfigWarning, ...]

    def owner(self, key: str) -> str:
        """Return the flow or alias that a key belongs to, empty for the whole mirror."""
        names = (*self.flows, *self.aliases)
        return max((one for one in names if key == one or key.startswith(f"{one}.")), key=len, default="")


def settle(draft: Draft, options: Options) -> Settled:
    """Check a draft with raymirror's own reader until it loads. Raises ConfigError if it cannot load at all."""
    return _Settling(draft, options).settled()


class _Settling:
    def __init__(self, draft: Draft, options: Options) -> None:
        self._settings = dict(draft.settings)
        self._dropped = list(draft.dropped)
        self._flows = draft.flows
        self._named = draft.aliases
        self._notes = draft.notes
        self._was = {key: setting.value for key, setting in draft.settings.items()}
        for key, setting in self._settings.items():
            text, why = kept_references(setting.value, draft.providers, options.secrets)
            if text != setting.value:
                self._settings[key] = Carried(key, text, setting.origin, _joined(setting.why, why))

    def settled(self) -> Settled:
        self._empty()
        while True:
            config, rulings = self._loaded()
            unread = {key: ruling for key, ruling in rulings.items() if key in self._settings}
            for key, ruling in unread.items():
                self._drop_unread(key, ruling)
            if not unread:
                self._take_warnings(config)
                break
            self._empty()
        return Settled(
            settings=self._settings,
            dropped=tuple(self._dropped),
            aliases=tuple(config.clusters),
            flows=tuple(self._flows_with_keys(config)),
            notes=(
                *self._notes,
                *(one for one in (*config.notes, *config.warnings) if one.key not in self._settings),
            ),
        )

    def _flows_with_keys(self, config: MirrorConfig) -> Iterator[str]:
        """Yield every flow that has keys, also one that is switched off."""
        for source, target in permutations(config.clusters, 2):
            if any(key.startswith(f"{source}->{target}.") for key in self._settings):
                yield f"{source}->{target}"

    def _loaded(self) -> tuple[MirrorConfig, dict[str, Ruling]]:
        """Read the settings; drop what is refused and read again. Raises ConfigError if that does not help."""
        while True:
            try:
                return read_with_rulings(self._properties())
            except ConfigError as error:
                refused = [one for one in parts(error) if not one.key.endswith(SERVERS)]
                dropped = [self._drop_refused(one) for one in refused]
                if not any(dropped):
                    raise self._at_its_origin(error) from None
                self._empty()

    def _properties(self) -> Properties:
        """Return the settings without references, which only the machines of the mirror can resolve."""
        entries = {"clusters": Property("clusters", ",".join(self._aliases()), 0)}
        for key, setting in self._settings.items():
            text = setting.value
            if "${" in text and not _security_name(key):
                if not key.endswith(f".{SERVERS}"):
                    continue
                text = _STAND_IN
            entries[key] = Property(key, text, 0)
        return Properties(_FILE, entries, ())

    def _aliases(self) -> list[str]:
        return self._named or list(dict.fromkeys(alias for flow in self._flows for alias in flow.split("->")))

    def _at_its_origin(self, error: ConfigError) -> ConfigError:
        first = parts(error)[0]
        setting = self._settings.get(first.key)
        if setting is None:
            file = next((one.origin.file for one in self._settings.values()), _FILE)
            return ConfigError(file, 0, first.key, first.wrong, first.right)
        return setting.origin.error(first.wrong, first.right)

    # --- dropping ----------------------------------------------------------------------------------------------------

    def _drop_refused(self, error: ConfigError) -> bool:
        """Drop a setting that cannot be used, and what is of no use without it; return whether anything was dropped."""
        with_it = [key for key in _falls_with(error.key, self._settings) if key in self._settings]
        for key in with_it:
            setting = self._settings.pop(key)
            main = key == error.key or (error.key not in with_it and key == with_it[0])
            why = error.wrong if main else f"it belongs to {error.key}, which cannot be used"
            self._drop(setting, why, error.right if main else "")
        return bool(with_it)

    def _drop_unread(self, key: str, ruling: Ruling) -> None:
        setting = self._settings.pop(key)
        if ruling.fate is KeyFate.NEEDLESS:
            self._dropped.append(Dropped(setting.origin, ruling.why, near=key, needless=True))
        else:
            self._drop(setting, ruling.why, ruling.right)

    def _drop(self, setting: Carried, why: str, right: str) -> None:
        instead = right.partition(_TOLERATE)[0]
        self._dropped.append(
            Dropped(
                setting.origin,
                why,
                "" if instead in _IDLE_ADVICE else instead,
                setting.key,
                empties=tuple(self._emptied_by(setting.key)),
            )
        )

    def _emptied_by(self, key: str) -> Iterator[str]:
        """Yield the selections that must select nothing once a key is gone."""
        flow = next((flow for flow in self._flows if key.startswith(f"{flow}.")), "")
        name = key.removeprefix(f"{flow}.") if flow else key
        for names, selection in ((_SELECTING, "topics"), (_SELECTING_GROUPS, "groups")):
            if name in names:
                yield from (f"{one}.{selection}" for one in ([flow] if flow else self._flows))

    def _empty(self) -> None:
        """Let every selection that something dropped would widen select nothing."""
        for dropped in self._dropped:
            for key in dropped.empties:
                there = self._settings.get(key)
                if there is not None and not there.value:
                    continue
                was = f"; it was {self._was[key]}" if self._was.get(key) else ""
                why = f"empty, so that nothing is selected before you decide about this{was}"
                self._settings[key] = Carried(key, "", dropped.origin, why)

    def _take_warnings(self, config: MirrorConfig) -> None:
        """Note at each setting what raymirror warns of, or does otherwise."""
        for warning in (*config.warnings, *config.notes):
            setting = self._settings.get(warning.key)
            if setting is not None:
                why = _joined(setting.why, warning.what)
                self._settings[warning.key] = msgspec.structs.replace(setting, why=why)


def _joined(*whys: str) -> str:
    return "; ".join(why for why in whys if why)


def _security_name(key: str) -> str:
    """Return the name of a security setting without its alias, empty for any other key."""
    found = [name for name in SECURITY_KEYS if key == name or key.endswith(f".{name}")]
    return max(found, key=len, default="")


def _falls_with(key: str, settings: Iterable[str]) -> list[str]:
    """Return the keys that are dropped with a key that cannot be used.

    Of a store the other keys of the store; of a login the whole login with `security.protocol`, so that no client logs
    in or sends a password in another way than meant.
    """
    name = _security_name(key)
    if not name:
        return [key]
    alias = key.removesuffix(name)
    store = next((store for store in _STORES if name.startswith(store)), None)
    if store is not None:
        return [one for one in settings if one.startswith(f"{alias}{store}")]
    for level in (alias, ""):  # a missing key has the alias in its name, although the others may be at top level
        login = (f"{level}sasl.", f"{level}security.protocol")
        if found := [one for one in settings if one.startswith(login) or one == key]:
            return found
    return []
