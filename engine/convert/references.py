"""References to secrets (KIP-297) in the form that raymirror resolves, and secrets that stand as text."""

import re
from collections.abc import Mapping

from engine.base.redaction import SECRET_WORDS
from engine.config.secrets import NO_SECRET, is_secret
from engine.convert.model import Carried

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_FILE, _ENV, _DIRECTORY, _KUBERNETES = "file", "env", "directory", "kubernetes"
_CLASSES = {
    "FileConfigProvider": _FILE,
    "EnvVarConfigProvider": _ENV,
    "DirectoryConfigProvider": _DIRECTORY,
    "KubernetesSecretConfigProvider": _KUBERNETES,
    "KubernetesConfigMapConfigProvider": _KUBERNETES,
}
_USUAL = {
    "file": _FILE,
    "env": _ENV,
    "directory": _DIRECTORY,
    "strimzifile": _FILE,
    "strimzienv": _ENV,
    "strimzidir": _DIRECTORY,
    "strimzisecrets": _KUBERNETES,
    "secrets": _KUBERNETES,
    "configmaps": _KUBERNETES,
}
"""Providers under the names that Kafka's and Strimzi's documentation give them; a declaration wins."""
_SECRET_NAME = re.compile(f"(?i){SECRET_WORDS}")
_SECRET_KEY = re.compile(
    r"(?i)password|passwd|passphrase|secret|credential|token|api[._-]?key|user\.info|ssl\.keystore\.key$|sasl\.jaas\.config$"
)
_PLAIN_ENDS = (".url", ".uri", ".location", ".type", ".class", ".ms", ".seconds", ".file", ".name")
_JAAS_OPTION = re.compile(r"([\w.\-]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s;\"']+)")
_MODULE = re.compile(r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._\-]+")


def kept_references(text: str, providers: Mapping[str, str], folder: str) -> tuple[str, str]:
    """Return a value with its references in raymirror's form, and what had to change (empty: nothing).

    `providers`: the declared providers, name -> class. `folder`: where the secrets of other stores will be.
    """
    whys: list[str] = []

    def _kept(found: re.Match[str]) -> str:
        new, why = _reference(found[1], found[2] or "", found[3], providers, folder)
        if why and why not in whys:
            whys.append(why)
        return new

    return _REFERENCE.sub(_kept, text), "; ".join(whys)


def _reference(provider: str, path: str, name: str, providers: Mapping[str, str], folder: str) -> tuple[str, str]:
    declared = providers.get(provider)
    kind = _CLASSES.get(declared.rpartition(".")[2]) if declared else _USUAL.get(provider)
    called = "" if kind == provider else f"provider {provider!r} is {kind!r} here"
    if kind == _ENV:
        return f"${{env:{name}}}", called
    if kind in (_FILE, _DIRECTORY) and path:
        return f"${{{kind}:{path}:{name}}}", called
    if kind == _KUBERNETES and path:
        place = f"{folder}/{path.rpartition('/')[2]}"
        return f"${{directory:{place}:{name}}}", f"mount {path.rpartition('/')[2]!r} of Kubernetes at {place}"
    place = f"{folder}/{_NOT_PLAIN.sub('_', provider) or 'provider'}.properties"
    key = _NOT_PLAIN.sub("_", f"{path}.{name}" if path else name) or "value"
    return f"${{file:{place}:{key}}}", f"raymirror has no provider {provider!r}: write the value into {place}, as {key}"


def is_literal_secret(setting: Carried) -> bool:
    """Whether a setting has a secret as text, which no output may show, instead of a reference to it."""
    key, text = setting.key, setting.value
    if key.endswith("sasl.jaas.config"):
        return _has_jaas_secret(text)
    secret = is_secret(key, text) or (_SECRET_KEY.search(key) is not None and not key.endswith(_PLAIN_ENDS))
    return secret and bool(_REFERENCE.sub("", text).strip())


def _has_jaas_secret(text: str) -> bool:
    """Whether a login has a secret option as text, or cannot be read, so that it may have one."""
    if not _REFERENCE.sub("", text).strip():
        return False
    options = _JAAS_OPTION.findall(text)
    if not _MODULE.match(text):
        return True
    return any(_may_be_secret(name) and _REFERENCE.sub("", value).strip("\"'") for name, value in options)


def _may_be_secret(option: str) -> bool:
    return _SECRET_NAME.search(option) is not None and not option.lower().endswith(NO_SECRET)


def hidden(setting: Carried, owner: str, folder: str) -> Carried:
    """Return a setting with a reference in place of its secret; `owner` is the alias or flow of the setting."""
    name = setting.key.removeprefix(f"{owner}.")
    place = f"{folder}/{_NOT_PLAIN.sub('_', owner) or 'mirror'}.properties"
    why = f"a secret, which is not printed: write it into {place}, as {name}, or convert with -o FILE, which keeps it"
    text = f"${{file:{place}:{name}}}"
    return Carried(setting.key, text, setting.origin, f"{setting.why}; {why}" if setting.why else why)
