"""Connectors beside the libraries that they stand on, and other systems: `oka bench connectors`."""
