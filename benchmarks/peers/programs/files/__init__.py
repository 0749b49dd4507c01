"""Files by other systems."""
