"""Packaged configs: `cfgen fit --config NAME`."""
