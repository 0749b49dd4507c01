"""HTTP by other systems."""
