"""Nexmark's queries by other systems."""
