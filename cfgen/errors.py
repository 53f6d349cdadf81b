"""The exceptions that a command turns into a line of text."""


class UserError(Exception):
    """Bad input: a command prints it as one line and exits with code 2."""


class UnfitRun(UserError):
    """An earlier run, named by a module's argument, that does not fit the data."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message)
        self.argument = argument
