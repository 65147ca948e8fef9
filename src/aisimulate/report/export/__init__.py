"""A candidate as files that start it: commands, compose files, Kubernetes resources."""
