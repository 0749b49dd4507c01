"""Nexmark's queries by Oka and by other systems, over the same events."""
