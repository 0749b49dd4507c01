"""What is wrong with manifests, found without a cluster.

Layers: kustomize builds; `programs.py` runs kubectl-validate, with `schemas/rules.yaml` for what is
true of one document, and hadolint; lints know how documents and Oka belong together.
"""
