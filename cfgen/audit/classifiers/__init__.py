"""Somebody else's network as p(yes | x)."""
