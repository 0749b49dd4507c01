"""Oka on Kubernetes: manifests, their sizes, and their checks."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)  # a folder of a user's shares the name
