"""The events that users read: one class per event, with severity and text. Tags are a format: they never change."""
