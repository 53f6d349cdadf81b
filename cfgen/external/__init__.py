"""Somebody else's network: what it takes and returns, and its answers as probabilities."""
