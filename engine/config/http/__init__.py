"""Reads the settings of the mirror's HTTP server, and resolves its passwords, tokens and certificates.

In: the properties of a file. Out: an `HttpConfig`, which contains no resolved secret; logins and a TLS context in the
process that serves; the settings of a flow as a connector has them. `http_config` reads and refuses, `http_secrets`
resolves, `connector_settings` has the last.
"""
