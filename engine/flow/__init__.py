"""Asyncio drivers over ports: they perform what the core decides.

Its packages see clusters only through `engine.flow.ports`; real brokers (`engine.kafka`) and fakes fill them.
"""
