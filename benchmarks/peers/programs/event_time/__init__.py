"""Spans of event time by other systems."""
