"""Checks of manifests that need no cluster."""
