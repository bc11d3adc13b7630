"""Something that goes wrong in the cloud."""

import re
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeVar
from urllib.parse import quote

from nepheletest._api import Api, Object
from nepheletest._errors import NepheleError

T = TypeVar("T")

_FAULTS = "/apis/cloud.nephele.dev/v1alpha1/namespaces/{}/faults/{}"
_CLUSTER_FAULTS = "/apis/cloud.nephele.dev/v1alpha1/clusterfaults/{}"

# What `fault add` prints about the object that it has made.
_IN_FORCE = re.compile(r"(?:Fault (?P<namespace>[^\s/]+)/|ClusterFault )(?P<name>\S+) is ")


class Cloud(Protocol):
    """What a Fault uses of Nephele."""

    def run(self, *arguments: str) -> str: ...

    def wait_until(self, what: str, condition: Callable[[], T]) -> T: ...


class Fault:
    """Something that goes wrong in the cloud, until `heal`.

    `Nephele.fault` makes one. It is a context manager that heals at the end.
    """

    name: str
    """The one of the flag --name, or a new one."""
    namespace: str | None
    """None for a ClusterFault, which the flags --all-namespaces and --namespace-selector make."""

    def __init__(self, cloud: Cloud, api: Api, said: str) -> None:
        """Use `Nephele.fault`."""
        found = _IN_FORCE.match(said)
        if found is None:
            raise NepheleError(f"failed to find the Fault in what `nephele fault add` says: {said}")
        self.name, self.namespace = found["name"], found["namespace"]
        self._cloud, self._api = cloud, api

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """Its kind and name, as in messages of the program."""
        return f"ClusterFault {self.name}" if self.namespace is None else f"Fault {self.namespace}/{self.name}"

    def heal(self) -> None:
        """Deletes the Fault and waits until it is gone, as `Nephele.wait_until` does.

        What it has hit recovers, except instances that are gone. A Fault that is gone already stays so.
        """
        if self._read() is None:
            return
        where = ["--all-namespaces"] if self.namespace is None else ["--namespace", self.namespace]
        self._cloud.run("fault", "heal", self.name, *where)
        self._cloud.wait_until(f"the {self} is gone", lambda: self._read() is None)

    def hits(self) -> int:
        """How often it has hit so far.

        Its status has the number within a second or two, so wait for the one that you expect. NepheleError says that
        the Fault is gone.
        """
        fault = self._read()
        if fault is None:
            raise NepheleError(f"failed to read the hits of the {self}: it does not exist")
        return int(fault.get("status", {}).get("hits", 0))

    def _read(self) -> Object | None:
        name = quote(self.name, safe="")
        if self.namespace is None:
            return self._api.get(_CLUSTER_FAULTS.format(name))
        return self._api.get(_FAULTS.format(quote(self.namespace, safe=""), name))
