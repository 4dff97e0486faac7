"""Services for a migration: what has moved and what is left, and the move of the producers of topics."""
