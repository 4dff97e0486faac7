"""Finds what applications have on the source beside topics and groups, and lack on the target: logins, quotas, schemas.

raymirror copies none of it: passwords are told to nobody, and quotas and schema registries have owners of their own.
"""

from collections.abc import Iterator, Mapping

import msgspec

from policies.sync.client_quotas import ClientQuota

SCHEMAS = "_schemas"
"""The topic of Confluent's schema registry and of those that copy it (`kafkastore.topic`), by default."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster says. `users`: with their SCRAM mechanisms. None: it does not say it."""

    users: Mapping[str, frozenset[str]] | None
    quotas: tuple[ClientQuota, ...] | None


class ClientGap(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that applications lack on the target; names are stable. `subject`: a user, an entity, or a topic."""

    name: str
    subject: str
    why: str


def client_gaps(source: ClientSettings, target: ClientSettings) -> Iterator[ClientGap]:
    """Yield the logins and quotas that the source has and the target has not, by name; or what is not known."""
    if source.users is None or target.users is None:
        yield _unknown("SCRAM users", source.users is None, "Describe on the cluster")
    else:
        yield from _user_gaps(source.users, target.users)
    if source.quotas is None or target.quotas is None:
        yield _unknown("client quotas", source.quotas is None, "DescribeConfigs on the cluster")
    else:
        yield from _quota_gaps(source.quotas, target.quotas)


def _unknown(what: str, is_source: bool, right: str) -> ClientGap:
    side = "source" if is_source else "target"
    return ClientGap(name="not-known", subject=what, why=f"the {side} does not tell them: it needs {right}")


def _user_gaps(here: Mapping[str, frozenset[str]], there: Mapping[str, frozenset[str]]) -> Iterator[ClientGap]:
    for user, mechanisms in sorted(here.items()):
        if missing := sorted(mechanisms - there.get(user, frozenset())):
            why = f"the target has no password of it for {', '.join(missing)}: set one there (kafka-configs --alter)"
            yield ClientGap(name="scram-user-missing", subject=user, why=why)


def _quota_gaps(here: tuple[ClientQuota, ...], there: tuple[ClientQuota, ...]) -> Iterator[ClientGap]:
    limits = {frozenset(one.entity.items()): one.limits for one in there}
    for one in sorted(here, key=lambda quota: quota.name):
        known = limits.get(frozenset(one.entity.items()), {})
        for limit, value in sorted(one.limits.items()):
            if limit not in known:
                yield ClientGap(name="quota-missing", subject=one.name, why=f"{limit} is {value:g} on the source")
            elif known[limit] != value:
                why = f"{limit} is {value:g} on the source, and {known[limit]:g} on the target"
                yield ClientGap(name="quota-differs", subject=one.name, why=why)


def schema_gaps(topics: Mapping[str, str], has_schemas: bool) -> Iterator[ClientGap]:
    """Yield that schema ids will not be found. `topics`: copied ones, with the names of their copies."""
    if has_schemas and topics.get(SCHEMAS) != SCHEMAS:
        why = (
            "records may hold ids of its schemas, and it is not copied under its name: import the schemas with their"
            " ids into the registry of the target"
        )
        yield ClientGap(name="schema-ids", subject=SCHEMAS, why=why)
