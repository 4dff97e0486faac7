"""Views of a mirror for people: tables, colours, conditions; the same where only the target can be read."""
