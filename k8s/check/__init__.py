"""What is wrong with manifests, found without a cluster.

Layers, each for what the one before cannot see: kustomize builds, `programs.py` runs the kept tools
(kubectl-validate, kube-score, hadolint), and the lints in the other files know what only Oka knows.
"""
