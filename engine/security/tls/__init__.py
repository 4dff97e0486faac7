"""TLS: key and trust stores in Java's formats and in PEM, protocols and suites, and SSL contexts made of them."""
