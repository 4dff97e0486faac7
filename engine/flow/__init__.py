"""Asyncio drivers over ports: they perform what the core decides."""
