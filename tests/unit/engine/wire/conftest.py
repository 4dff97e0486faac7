"""Hypothesis without a deadline: an example may be slow on a busy machine without being wrong."""

from hypothesis import HealthCheck, settings

settings.register_profile("wire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")
