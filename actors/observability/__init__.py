"""Shows a mirror to people: tables, colours, conditions; also a stopped mirror, as read from its targets."""
