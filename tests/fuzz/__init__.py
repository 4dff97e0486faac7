"""Fuzzing of everything that reads bytes or texts of others: configurations, logins, stores, answers, batches, records.

In: `targets.py`, one table of readers, their seeds, and the errors that each may raise. Out: `make test` tries mutated
seeds and random bytes on each (tests/unit/test_fuzz_targets.py, by hypothesis), `make fuzz` searches for minutes by
coverage (atheris). A reader may refuse an input, but not crash, hang, or take memory beyond twice the input.
"""
