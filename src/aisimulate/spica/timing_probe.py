"""Proof that a shape can be timed: KV capacity alone does not show that there is data (spec 04 section 11)."""
