"""Judges keys that nothing has read: refused, a warning, or one note (`policies/keys/unread_keys.py`)."""

from collections.abc import Iterable, Mapping

from engine.base.errors import ConfigError, ConfigErrors
from engine.config.flow_keys import Layer, level_of
from engine.config.placement_config import SITE_KEY
from engine.config.property_reader import SWITCH, PropertyReader
from engine.config.secrets import SECURITY_KEYS
from engine.config.settings import ConfigWarning
from policies.keys.kafka_keys import KeyFate, Ruling
from policies.keys.unread_keys import Scene, judge
from policies.model import FlowName

_REFUSED = (KeyFate.MISTYPED, KeyFate.UNSUPPORTED)


def judge_unread(
    reader: PropertyReader,
    aliases: Iterable[str],
    flows: Iterable[FlowName],
    asked: Iterable[tuple[Layer, str]],
    *,
    accepted: bool,
) -> list[ConfigWarning]:
    """Return warnings of keys that nothing has read, and note the keys that are not needed. Raises ConfigError.

    `asked` is what a flow reads, by level. A file that was `accepted` before gets warnings only.
    """
    tolerant = reader.is_tolerant() or accepted
    scene = Scene(
        aliases=tuple(aliases),
        flows=tuple(flows),
        values=reader.values(),
        honoured=_honoured(reader, asked),
        asked=frozenset(reader.read_keys()),
    )
    unread = sorted(reader.unread(), key=lambda key: reader.where(key).line)
    rulings = {key: judge(key, scene) for key in unread}
    reader.rule(rulings)
    refused = {key: ruling for key, ruling in rulings.items() if ruling.fate in _REFUSED}
    if refused and not tolerant:
        raise _refusal(reader, refused)
    _note_needless(reader, rulings)
    told = {key: ruling for key, ruling in rulings.items() if ruling.fate is not KeyFate.NEEDLESS}
    return [ConfigWarning(reader.where(key).line, key, ruling.sentence) for key, ruling in told.items()]


def _honoured(reader: PropertyReader, asked: Iterable[tuple[Layer, str]]) -> dict[str, frozenset[str]]:
    """Return the key names of each level: those that a flow reads, those of a cluster, and the rest."""
    levels: dict[str, set[str]] = {"flow": {"enabled"}, "cluster": {"bootstrap.servers", SITE_KEY, *SECURITY_KEYS}}
    for layer, name in asked:
        levels.setdefault(level_of(layer), set()).add(name)
    below = set().union(*levels.values())
    levels["top"] = {key for key in reader.read_keys() if key not in below and "->" not in key}
    return {level: frozenset(names) for level, names in levels.items()}


def _refusal(reader: PropertyReader, refused: Mapping[str, Ruling]) -> ConfigError:
    """Return the errors of all keys together, so that a user repairs the file in one go."""
    errors = [_refused(reader, key, ruling) for key, ruling in refused.items()]
    return errors[0] if len(errors) == 1 else ConfigErrors(*errors)


def _refused(reader: PropertyReader, key: str, ruling: Ruling) -> ConfigError:
    if ruling.fate is not KeyFate.UNSUPPORTED:
        return reader.where(key).error(ruling.why, ruling.right)
    right = f"{ruling.right}; or set {SWITCH} = warn to continue without it"
    return reader.where(key).error(ruling.why, right).dependent(SWITCH)


def _note_needless(reader: PropertyReader, rulings: Mapping[str, Ruling]) -> None:
    """Note in one line the keys that mean nothing here, and why nothing is lost."""
    reasons: dict[str, list[str]] = {}
    for key, ruling in rulings.items():
        if ruling.fate is KeyFate.NEEDLESS:
            reasons.setdefault(ruling.why, []).append(key)
    if reasons:
        text = "; ".join(f"{', '.join(keys)} ({why})" for why, keys in reasons.items())
        reader.notes.append(ConfigWarning(0, "not needed here, and nothing is lost", text))
