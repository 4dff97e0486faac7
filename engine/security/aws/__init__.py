"""Logins to Amazon MSK with an AWS identity: credentials as AWS's own clients find them, and signatures (SigV4)."""
