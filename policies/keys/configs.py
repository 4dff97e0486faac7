"""The keys that decide which configs and ACLs the copies get, and how often."""

from policies.keys.read_key import ReadKey
from policies.sync.topic_configs import EXCLUDED_CONFIGS

TITLE = "Configs and ACLs"
ROWS = (
    ReadKey(
        "config.properties.exclude",
        "flow",
        f"`{', '.join(EXCLUDED_CONFIGS)}`",
        "topic configs that are never copied",
        "durability is never lowered, see [docs/config-sync.md](../docs/config-sync.md)",
    ),
    ReadKey(
        "config.property.filter.class",
        "flow",
        "DefaultConfigPropertyFilter",
        (
            "what chooses the topic configs: MM2's filter, or one that a Python package provides"
            " ([docs/policies.md](../docs/policies.md))"
        ),
        "a Java class is refused, see `raymirror.unsupported`",
    ),
    ReadKey(
        "use.defaults.from",
        "filter",
        "target",
        "`source`: defaults of the source are copied too, if the copy's value differs",
        "any other word is refused",
    ),
    ReadKey(
        "sync.topic.configs.enabled",
        "flow",
        "true",
        "sync the configs of copies",
        "only differences are written; overrides that only the copy has stay",
    ),
    ReadKey("sync.topic.configs.interval.seconds", "flow", "600", "how often"),
    ReadKey("sync.topic.acls.enabled", "flow", "true", "sync the ACLs of copies", "only missing ACLs are written"),
    ReadKey("sync.topic.acls.interval.seconds", "flow", "600", "how often"),
    ReadKey(
        "raymirror.sync.configs.foreign",
        "flow",
        "keep",
        "`remove`: remove overrides that only the copy has",
        "MM2 always removes them",
    ),
    ReadKey(
        "raymirror.sync.acls.prefixed",
        "flow",
        "false",
        "also sync prefixed patterns; the wildcard becomes the prefix of all copies",
    ),
    ReadKey("raymirror.sync.acls.groups", "flow", "false", "also sync the ACLs of mirrored consumer groups"),
    ReadKey(
        "raymirror.config.sync.on",
        "flow",
        "actor, or spark if `raymirror.spark = on`",
        (
            "what plans the rounds of configs and ACLs: `spark`, executors of the mirror's Spark, or `actor`, the"
            " Metadata process; the Metadata process applies every plan, and plans a round itself when Spark is not"
            " there. `spark` without `raymirror.spark = on` is refused"
        ),
    ),
    ReadKey(
        "raymirror.config.history",
        "flow",
        "on if `raymirror.storage` is set and configs are synced, else off",
        (
            "keep in tables what any topic's configs were on either side, what changed on the source and when it"
            " reached the copy, and drift of copies (`raymirror drift`,"
            " [docs/config-sync.md](../docs/config-sync.md#history-and-drift)). Rounds then read all configs of"
            " copies, not only those that can matter. `on` with `sync.topic.configs.enabled = false`: copies are"
            " compared, and not changed. `on` without `raymirror.storage` is refused"
        ),
    ),
)
