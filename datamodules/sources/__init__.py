"""Reading, packing and keeping data sets."""
