"""Everything that users are told: one class per event, with its severity and its text. Tags are a format: they stay."""
