"""Commands that prove a copy: verify and compare-ends."""
