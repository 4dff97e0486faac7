"""Looks: what is taken from configs, and the way of a look from Spark."""

from engine.flow.config_history.look import (
    ConfigLook,
    DefaultValue,
    SideLook,
    defaults_of,
    look_of,
    merged_looks,
    pack_defaults,
    pack_look,
    unpack_defaults,
    unpack_look,
    with_defaults,
)
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_DEFAULT,
    STATIC_BROKER,
    TOPIC_OVERRIDE,
    ConfigEntry,
)


def entry(value: str, source: int = TOPIC_OVERRIDE, *, sensitive: bool = False) -> ConfigEntry:
    return ConfigEntry(value, source, False, sensitive)


def topic(**configs: ConfigEntry) -> TopicState:
    return TopicState(partitions=1, configs={name.replace("_", "."): one for name, one in configs.items()})


def copy_name(name: str) -> str:
    return f"A.{name}"


def test_a_look_has_overrides_of_topics_and_defaults_of_clusters() -> None:
    ours = {"t": topic(a=entry("1"), b=entry("2", DEFAULT)), "u": topic(a=entry("3", DYNAMIC_DEFAULT))}
    theirs = {"A.t": topic(a=entry("4"), b=entry("5", STATIC_BROKER))}
    found = look_of(["t", "u"], ours, theirs, (), copy_name)
    assert found.source.topics == {"t": {"a": "1"}, "u": {}}
    assert found.source.defaults == {
        "b": frozenset({DefaultValue("2", "kafka")}),
        "a": frozenset({DefaultValue("3", "cluster")}),
    }
    assert found.copies.topics == {"t": {"a": "4"}}
    assert found.copies.defaults == {"b": frozenset({DefaultValue("5", "file")})}
    assert not found.source.unread | found.copies.unread


def test_a_sensitive_value_is_null_although_kafka_would_give_one() -> None:
    state = topic(a=entry("secret", sensitive=True), b=entry("hidden", DEFAULT, sensitive=True))
    found = look_of(["t"], {"t": state}, {"A.t": state}, (), copy_name)
    assert found.source.topics == {"t": {"a": None}}
    assert b"secret" not in pack_look(found)
    assert b"hidden" not in pack_defaults(found.source.defaults)
    assert "hidden" not in str(found)


def test_what_could_not_be_read_is_named_and_what_is_not_there_is_not() -> None:
    found = look_of(["t", "u", "v", "w"], {"t": topic(), "w": topic()}, {"A.u": topic()}, {"u", "A.t"}, copy_name)
    assert found.source.topics == {"t": {}, "w": {}}
    assert found.source.unread == {"u"}
    assert found.copies.topics == {}
    assert found.copies.unread == {"t", "u"}


def test_copies_that_keep_their_names_are_read_by_side() -> None:
    found = look_of(["t", "u"], {"t": topic()}, {"t": topic(a=entry("1"))}, {"u"}, str)
    assert found.source.topics == {"t": {}}
    assert found.source.unread == {"u"}
    assert found.copies.topics == {"t": {"a": "1"}}
    assert found.copies.unread == {"u"}


def test_a_look_survives_its_way_and_parts_make_the_whole() -> None:
    ours = {name: topic(a=entry(str(place % 2)), b=entry("2", DEFAULT)) for place, name in enumerate("stuv")}
    theirs = {copy_name(name): state for name, state in ours.items() if name != "u"}
    whole = look_of("stuvw", ours, theirs, {"w"}, copy_name)
    assert unpack_look(pack_look(whole)) == whole
    parts = [look_of(some, ours, theirs, {"w"}, copy_name) for some in ("su", "tvw")]
    assert merged_looks(parts) == whole
    bare = ConfigLook(
        source=SideLook(topics=whole.source.topics, unread=whole.source.unread),
        copies=SideLook(topics=whole.copies.topics, unread=whole.copies.unread),
    )
    told = unpack_defaults(pack_defaults(defaults_of(state.configs for state in ours.values())))
    assert with_defaults(bare, [told], [told]) == whole


def test_topics_with_equal_overrides_share_an_entry_on_the_way() -> None:
    many = {f"topic-{number}": topic(a=entry("1")) for number in range(1_000)}
    few = {name: state for name, state in many.items() if name < "topic-2"}
    found = unpack_look(pack_look(look_of(many, many, {}, (), copy_name)))
    assert len({id(values) for values in found.source.topics.values()}) == 1
    assert len(found.source.topics) > len(few)
