"""The one exception a command turns into a line of text."""


class UserError(Exception):
    """Bad input: a command prints it as one line and exits with code 2."""
