"""Names of the keys of OAUTHBEARER logins."""

HANDLER = "sasl.login.callback.handler.class"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CONNECT_TIMEOUT, READ_TIMEOUT = "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"
BACKOFF, MOST_BACKOFF = "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"
WINDOW_FACTOR, WINDOW_JITTER = "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"
MIN_PERIOD, BUFFER = "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds"
RETRIEVER, VALIDATOR = "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"
SCOPE, SUBJECT_CLAIM = "sasl.oauthbearer.scope", "sasl.oauthbearer.sub.claim.name"
SCOPE_CLAIM, URL_ENCODE = "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.header.urlencode"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
HANDLER_KEYS = (RETRIEVER, VALIDATOR, ENDPOINT, SCOPE, CLIENT_ID, CLIENT_SECRET, URL_ENCODE, SUBJECT_CLAIM, SCOPE_CLAIM)
TUNING_KEYS = (
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    BACKOFF,
    MOST_BACKOFF,
    WINDOW_FACTOR,
    WINDOW_JITTER,
    MIN_PERIOD,
    BUFFER,
)
"""Keys that tune how tokens are fetched."""
SINCE_3_1 = (ENDPOINT, SUBJECT_CLAIM, SCOPE_CLAIM, *TUNING_KEYS)
"""Keys that Kafka's Java client has had since 3.1, with the same meaning."""
_BEGIN = "sasl.oauthbearer.assertion."
ALGORITHM, ASSERTION_FILE, TEMPLATE_FILE = f"{_BEGIN}algorithm", f"{_BEGIN}file", f"{_BEGIN}template.file"
PRIVATE_KEY_FILE, PASSPHRASE = f"{_BEGIN}private.key.file", f"{_BEGIN}private.key.passphrase"
AUDIENCE, ISSUER, SUBJECT = f"{_BEGIN}claim.aud", f"{_BEGIN}claim.iss", f"{_BEGIN}claim.sub"
EXPIRES, NOT_BEFORE, WITH_ID = f"{_BEGIN}claim.exp.seconds", f"{_BEGIN}claim.nbf.seconds", f"{_BEGIN}claim.jti.include"
ASSERTION_KEYS = (
    ALGORITHM,
    ASSERTION_FILE,
    TEMPLATE_FILE,
    PRIVATE_KEY_FILE,
    PASSPHRASE,
    AUDIENCE,
    ISSUER,
    SUBJECT,
    EXPIRES,
    NOT_BEFORE,
    WITH_ID,
)
