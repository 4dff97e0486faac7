"""Benches of operations between two clusters, by the commands that a person types.

`trips`: over and back under load; `dr-times`: the time of each step; `story`: the same story with MM2. Judges
(`judging`) are pure. Load and group are processes of librdkafka; the rest of the package drives them and the commands.
"""
