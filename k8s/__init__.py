"""Oka on Kubernetes: manifests, their sizes, and what checks them."""
