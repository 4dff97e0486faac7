"""Commands that check a copy: verify and compare-ends."""
