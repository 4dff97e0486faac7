"""The settings of a client, as values that every other package may use; `engine/config/clients` reads them."""
