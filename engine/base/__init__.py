"""Basics for every other package: clock, tasks, async contexts, error types. It imports no other package."""
