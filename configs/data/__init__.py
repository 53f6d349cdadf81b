"""Configs of the data sets: the parts that runs share."""
