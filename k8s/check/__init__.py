"""What is wrong with manifests, found without a cluster."""
