"""Model-based search over a pool of real configurations."""
