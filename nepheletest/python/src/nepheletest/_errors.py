"""The errors of this package."""


class NepheleError(Exception):
    """Nephele cannot be started, reached or ended. The message says what to do."""


class WaitError(NepheleError):
    """What a test waited for did not happen in time. The message says what was seen last."""
