"""Runs flows with asyncio: performs over ports what the core (`engine.core`) decides.

Its packages see clusters only through `engine.flow.ports`; `engine.kafka` and the tests' fakes implement these ports.
"""
