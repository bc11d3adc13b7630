"""What an error shows of logs and output: a bounded end."""

from pathlib import Path

BYTES_MAX = 8 * 1024
LINES_MAX = 20


def describe(path: Path | None) -> str:
    """The path of a log and its last lines, for the end of an error. Empty without a log."""
    if path is None:
        return ""
    try:
        return f"\nthe last lines of the log {path}:\n{last_lines(path)}"
    except OSError as error:
        return f"\nfailed to read the log: {error}"


def describe_page(address: str | None) -> str:
    """The address of the live page, for the end of an error. Empty without a page."""
    return "" if address is None else f"\nuntil Nephele ends, its page shows what is there: {address}"


def last_lines(path: Path) -> str:
    """Reads the end of a file, whatever its size."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - BYTES_MAX, 0))
        text = file.read(BYTES_MAX).decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-LINES_MAX:])


def named_in(said: str) -> Path | None:
    """The log that an error of the program names."""
    _, found, rest = said.partition("its log is ")
    return Path(rest.partition(": ")[0]) if found else None
