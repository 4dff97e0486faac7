"""The keys of connections: logins and TLS, for all clients of a cluster."""

from policies.keys.read_key import ReadKey

TITLE = "Logins and TLS"
ROWS = (
    ReadKey("bootstrap.servers", "cluster", "required", "brokers, `host:port`", "an IPv6 address needs its brackets"),
    ReadKey(
        "security.protocol",
        "cluster",
        "PLAINTEXT",
        "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        "for all clients of a cluster; a different value for one client is refused",
    ),
    ReadKey("sasl.mechanism", "cluster", "GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", "GSSAPI is refused"),
    ReadKey(
        "sasl.jaas.config",
        "cluster",
        "none",
        "`username` and `password` of the login module, which must fit the mechanism and end with `;`",
    ),
    ReadKey("ssl.truststore.location", "cluster", "the system's", "PEM file"),
    ReadKey("ssl.truststore.type", "cluster", "JKS", "", "PEM only"),
    ReadKey("ssl.truststore.certificates", "cluster", "none", "PEM text"),
    ReadKey("ssl.keystore.location", "cluster", "none", "PEM file of key and certificates"),
    ReadKey("ssl.keystore.type", "cluster", "JKS", "", "PEM only"),
    ReadKey("ssl.key.password", "cluster", "none", "of the key"),
    ReadKey("ssl.endpoint.identification.algorithm", "cluster", "https", "empty: the broker's name is not checked"),
)
