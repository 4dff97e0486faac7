"""The keys that name clusters, their brokers and the providers of secrets."""

from policies.keys.read_key import ReadKey

TITLE = "Clusters"
ROWS = (
    ReadKey(
        "clusters",
        "top",
        "required",
        "aliases",
        "an alias with `->` is refused, and so is a source alias that is not allowed in a topic name",
    ),
    ReadKey(
        "config.providers",
        "top",
        "none",
        "names of providers",
        "`file`, `env` and `directory` need no declaration",
    ),
    ReadKey(
        "config.providers.NAME.class",
        "top",
        "required",
        "FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider",
        "no other class",
    ),
)
