"""Training: configs by name, checks, stages, tracking."""
