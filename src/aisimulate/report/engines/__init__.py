"""The arguments that start an engine as it was simulated."""
