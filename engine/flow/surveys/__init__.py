"""Looks at what is on a target without owning it: MM2's presence, what a takeover would find, why ends differ."""
