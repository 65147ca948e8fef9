"""Placement: which worker, and which of its ranks, a request goes to."""
