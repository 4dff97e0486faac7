"""Examines a target without owning the flow: whether MM2 runs, what a takeover would find, why end offsets differ."""
