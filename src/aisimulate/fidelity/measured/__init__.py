"""Results of benchmark tools and request logs, read into one form (docs/metrics.md has the definitions)."""
