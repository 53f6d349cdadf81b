"""Classifiers from their names: runs, functions, ONNX files and exported programs."""
