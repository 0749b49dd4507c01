"""Nodes, what is free on them, and which of them runs which task."""
