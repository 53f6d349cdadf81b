"""The doors through which files from outside come in: what is not as it should be is refused in one line, and nothing runs.

`files` reads bytes, text, JSON, YAML and CSV, `pictures` and `archives` images and zips, `classes` finds the class that a
model's file names, `checksums` tells whether files are as they were written, `names` what may be the name of a folder.
What goes out is written whole or not at all (`writing`, `parts`), and how a command ends is settled in `endings`.
"""
