"""The journal of the simulated cloud."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nepheletest._errors import NepheleError


@dataclass(frozen=True)
class Record:
    """What the journal says about one call or one event. What does not apply is empty."""

    sequence: int
    """Counts the records from 1."""
    time: datetime
    namespace: str
    cluster: str
    kind: str
    """The kind of the object that it concerns: Machine, LoadBalancer, SimulatedCloud or Fault."""
    name: str
    operation: str
    """The name of a call, such as CreateInstance."""
    caller: str
    """The controller that made the call."""
    outcome: str
    """The answer to a call: Accepted, AlreadyDone, Delayed, or the reason of an error, such as QuotaExceeded."""
    event: str
    """The name of an event, such as StageReached."""
    message: str
    faults: tuple[str, ...]
    """The names of the Faults that counted the call, or that caused the event."""
    hit: bool
    """The last of these Faults hit the call."""


def records_in(lines: str) -> list[Record]:
    """Reads one record a line. NepheleError names the line that is none."""
    records = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            records.append(_record(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise NepheleError(f"failed to read record {number} of the journal: {error!r}") from error
    return records


def _record(value: Mapping[str, Any]) -> Record:
    texts = ("namespace", "cluster", "kind", "name", "operation", "caller", "outcome", "event", "message")
    # Python 3.10 knows neither Z nor fractions that have not three or six digits.
    whole, _, fraction = value["time"].removesuffix("Z").partition(".")
    return Record(
        sequence=value["sequence"],
        time=datetime.fromisoformat(f"{whole}.{fraction:0<6.6}+00:00"),
        faults=tuple(value.get("faults", ())),
        hit=value.get("hit", False),
        **{name: value.get(name, "") for name in texts},
    )
