"""The errors of this package."""

import shlex
from collections.abc import Sequence


class NepheleError(Exception):
    """Nephele cannot be started, reached or ended. The message says what to do."""


class CommandError(NepheleError):
    """A command of the program did not succeed. The message has what the program said."""

    arguments: tuple[str, ...]
    """Those of the command, without the program."""
    exit_code: int
    """That of the program, or minus the number of the signal that ended it."""
    stderr: str
    """The end of what the program said."""

    def __init__(self, arguments: Sequence[str], exit_code: int, stderr: str) -> None:
        said = stderr.strip().removeprefix("Error: ").removeprefix("error: ")
        super().__init__(f"failed to run {command_line(arguments)} (exit code {exit_code}): {said}")
        self.arguments, self.exit_code, self.stderr = tuple(arguments), exit_code, stderr


class WaitError(NepheleError):
    """What a test waited for did not happen in time. The message says what was seen last."""


def command_line(arguments: Sequence[str]) -> str:
    """What a developer would type."""
    return f"`nephele {shlex.join(arguments)}`"
