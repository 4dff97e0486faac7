"""Proves who raymirror is (SASL logins) and whom it trusts (TLS stores), from Kafka's own keys; no Kafka client."""
