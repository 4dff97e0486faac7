"""SASL logins: what `sasl.jaas.config` and the `sasl.*` keys ask for, and the messages of each mechanism."""
