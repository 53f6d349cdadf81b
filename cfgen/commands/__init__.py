"""The commands: each file turns the options of one command into one call of the library, and prints the result.

`cfgen NAME` and `python -m cfgen.NAME` both run `main` of `cfgen/commands/NAME.py`.
"""
