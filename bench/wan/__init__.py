"""The bench `wan`: a copy over a distance. Imports bench's other modules; data enters through the brokers it starts."""
