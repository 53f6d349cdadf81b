"""What `cfgen data` reads and prints; `cfgen.reporting.dataset` makes the report."""
