"""Word count by other systems."""
