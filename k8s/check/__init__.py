"""What is wrong with manifests, found without a cluster.

Three layers, each for what the one before cannot see: schemas (`schemas.py`: kubeconform), lints
(`lints.py`: the other files here) and hadolint for the Dockerfile.
"""
