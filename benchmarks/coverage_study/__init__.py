"""The parts of benchmarks/audit_coverage.py: pools of images with known potential answers, resampling, tables."""
