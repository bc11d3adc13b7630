"""What a test works with: Nephele, its clusters and their machines."""

import base64
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from nepheletest import _kubeconfig, _log
from nepheletest._api import Api, Object
from nepheletest._errors import NepheleError, WaitError
from nepheletest._fault import Fault
from nepheletest._journal import Record, records_in
from nepheletest._process import Process

StrPath = str | os.PathLike[str]
T = TypeVar("T")

# Short, because a request takes a few milliseconds and no other program uses the API server.
_POLL_SECONDS = 0.02
# How long an error waits for the Faults that it names.
_FAULTS_SECONDS = 5
_WAIT_SECONDS = 30.0

_CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters"
_MACHINES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/machines"
_IN_MEMORY_MACHINES = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/{}/inmemorymachines"
_SECRETS = "/api/v1/namespaces/{}/secrets"

_CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
_CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
# On an InMemoryMachine, it terminates the instance behind Cluster API's back.
_TERMINATE_ANNOTATION = "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance"


# What the managers of providers, and an API server for them, may take beyond the time limit.
_PROVIDERS_MARGIN_SECONDS = 150.0


@dataclass(frozen=True)
class Provider:
    """A provider of Cluster API, whose manager runs beside Nephele."""

    components: StrPath
    """The file that clusterctl would install."""
    name: str
    """What clusterctl calls it, such as bootstrap-kubeadm."""
    program: StrPath
    """The program of its manager."""


@dataclass(frozen=True)
class Machine:
    """What the management API says about a machine of a cluster."""

    name: str
    node: str | None
    """The name of its Node in the workload cluster."""
    is_control_plane: bool
    is_ready: bool
    """Its condition Ready."""
    is_deleting: bool
    """True from its deletion until it is gone."""


@dataclass(frozen=True)
class Cluster:
    """A workload cluster whose API server is up."""

    namespace: str
    name: str
    kubeconfig: Path
    server: str
    """The URL of its API server."""
    _api: Api = field(repr=False, compare=False)

    def machines(self) -> list[Machine]:
        """The Machines of the cluster, ordered by name."""
        query = urlencode({"labelSelector": f"{_CLUSTER_NAME_LABEL}={self.name}"})
        found = self._api.get(f"{_MACHINES.format(self.namespace)}?{query}") or {}
        return sorted(map(_machine, found.get("items", [])), key=lambda machine: machine.name)

    def terminate_machine(self, name: str) -> None:
        """Terminates the instance of a Machine behind Cluster API's back.

        The instance and its Node stay gone. The stand-in replaces the Machine within moments; with the real
        Cluster API a MachineHealthCheck does. Wait for what your test needs.
        """
        what = f"terminate the Machine {self.namespace}/{name}"
        machine = self._api.get(_path(_MACHINES, self.namespace, name))
        if machine is None:
            raise NepheleError(f"failed to {what}: it does not exist")
        infrastructure = machine["spec"]["infrastructureRef"]
        if infrastructure["kind"] != "InMemoryMachine":
            raise NepheleError(
                f"failed to {what}: its infrastructure is a {infrastructure['kind']}, not an InMemoryMachine of Nephele"
            )
        patch = {"metadata": {"annotations": {_TERMINATE_ANNOTATION: ""}}}
        self._api.merge(_path(_IN_MEMORY_MACHINES, self.namespace, infrastructure["name"]), patch)


class Nephele:
    """A running `nephele up`: a management API, and the workload clusters that it describes.

    `start` makes one. It is a context manager; without `with`, call `close`.
    """

    kubeconfig: Path
    """The kubeconfig of the management API."""
    server: str
    """The URL of the management API."""
    folder: Path
    """Kubeconfigs, log and journal. It is removed at the end, unless `start` was given one."""
    log: Path
    """The log. The environment variable RUST_LOG sets what it contains."""
    journal: Path
    """The journal of the simulated cloud: every call and every event."""
    page: str | None
    """The address of the live page, which shows the clusters in a browser until Nephele ends. None if there is none."""

    def __init__(self, process: Process) -> None:
        """Use `start`."""
        report = process.report
        self._process = process
        self._is_closed = False
        self.kubeconfig = Path(report["management"]["kubeconfig"])
        self.server = report["management"]["server"]
        self.folder, self.log, self.journal = (Path(report[name]) for name in ("folder", "log", "journal"))
        self.page = report.get("page")

    def __enter__(self) -> "Nephele":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Nephele at {self.server}, in {self.folder}>"

    def close(self) -> None:
        """Ends Nephele and waits until it is gone. Further calls have no effect.

        NepheleError says that it ended before, or not in an orderly way.
        """
        if not self._is_closed:
            self._is_closed = True
            self._process.stop()

    def cluster(self, name: str, namespace: str = "default") -> Cluster:
        """Finds a workload cluster whose API server is up, also one that was created after the start.

        NepheleError says that there is none.
        """
        # The name of a file alone does not say which cluster it belongs to. So this reads the kubeconfig from its
        # Secret, as providers do, and finds the file with the same content.
        secret = self._api.get(_path(_SECRETS, namespace, f"{name}-kubeconfig"))
        content = base64.b64decode(secret["data"]["value"]) if secret is not None else None
        # `a-b`/`c` and `a`/`b-c` want the same name; the later one gets the second form.
        for separator in "-_":
            path = self.folder / f"{namespace}{separator}{name}.kubeconfig"
            if content is not None and path.exists() and path.read_bytes() == content:
                return Cluster(namespace, name, path, _kubeconfig.read(path).server, self._api)
        raise NepheleError(
            f"failed to find the cluster {namespace}/{name}: its API server is not up, or it does not exist"
        )

    def wait_for_cluster(self, name: str, namespace: str = "default", *, time_limit: float = _WAIT_SECONDS) -> Cluster:
        """Waits until a Cluster exists and is available, and returns it."""

        def available() -> Cluster:
            missing = _missing(self._api.get(_path(_CLUSTERS, namespace, name)))
            if missing is not None:
                raise NepheleError(missing)
            return self.cluster(name, namespace)

        return self.wait_until(f"the Cluster {namespace}/{name} is available", available, time_limit=time_limit)

    def wait_until(self, what: str, condition: Callable[[], T], *, time_limit: float = _WAIT_SECONDS) -> T:
        """Calls `condition` until it returns a true value, and returns that.

        An exception counts as false, so a condition can also `assert`. WaitError says what it returned or raised last,
        and has the Faults that there are, the end of Nephele's log and the address of `page`. The wait fails as soon as
        Nephele ends.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + time_limit
        while True:
            cause: Exception | None = None
            try:
                value = condition()
            except Exception as error:
                cause, seen = error, f"{type(error).__name__}: {error}"
            else:
                if value:
                    return value
                seen = repr(value)
            if self._process.has_exited():
                raise WaitError(f"failed to wait until {what}: nephele ended: {self._process.failure()}") from cause
            if time.monotonic() >= deadline:
                raise WaitError(
                    f"failed to wait until {what}: it is not so after {time_limit} s; last seen: {seen}"
                    f"{self._describe_faults()}{_log.describe(self.log)}{_log.describe_page(self.page)}"
                ) from cause
            time.sleep(_POLL_SECONDS)

    def _describe_faults(self) -> str:
        """The Faults that there are, for the end of an error: one that is forgotten explains much."""
        try:
            command = ("get", "faults", "--all-namespaces")
            said = self._process.run(command, self.kubeconfig, time_limit=_FAULTS_SECONDS).strip()
        except NepheleError:
            return ""
        return f"\nthere are Faults:\n{said}" if said else ""

    def run(self, *arguments: str) -> str:
        """Runs a command of the program against this Nephele, and returns what it prints.

        Every command of the book that takes a kubeconfig works, with all its flags: `nephele.run("get", "machines")`.
        The program is the one that runs as Nephele, and KUBECONFIG names `kubeconfig`. Proxies of the environment are
        left out. The command ends as soon as Nephele ends. CommandError says that the program refuses or fails.
        """
        return self._process.run(arguments, self.kubeconfig)

    def fault(self, effect: str, *flags: str) -> Fault:
        """Lets something go wrong, and returns when that is in force.

        The effect and the flags are those of `nephele fault add`:

            with nephele.fault("fail: {reason: InsufficientCapacity}", "--operation", "CreateInstance"):
                ...

        Unless a flag says otherwise, it affects the namespace default, gets a new name, and lasts until the end of
        `with` or until `heal`. CommandError says that the effect or a flag is wrong.
        """
        return Fault(self, self._api, self.run("fault", "add", effect, *flags))

    def preview(self, effect: str, *flags: str) -> str:
        """Says what a Fault would hit, as `nephele fault preview` does, and creates none.

        CommandError says that the effect or a flag is wrong.
        """
        return self.run("fault", "preview", effect, *flags)

    def scenario(self, name_or_file: StrPath, *flags: str) -> None:
        """Runs a scenario of the library, or of a file: a path with / or .yaml. Returns when the scenario has passed.

        The flags are those of `nephele scenario run`, such as --make-cluster. CommandError says which step has failed,
        and what was seen.
        """
        self.run("scenario", "run", os.fspath(name_or_file), *flags)

    def clock(self, *flags: str) -> None:
        """Changes the clock of a SimulatedCloud, and returns when the change is in force.

        The flags are those of `nephele clock`: --pause, --resume, --rate, --step and --jump, and the name of the cloud
        if there are several. CommandError says that there is no SimulatedCloud, or that a flag is wrong.
        """
        self.run("clock", *flags)

    def checkpoint(self, file: StrPath) -> None:
        """Saves all clusters of the namespace default, with everything in them, to a file that only its owner can read.

        For other namespaces, `run` takes all flags of `nephele checkpoint save`. CommandError says that the file cannot
        be written.
        """
        self.run("checkpoint", "save", os.fspath(file))

    def restore(self, file: StrPath) -> None:
        """Replaces all clusters, clouds and Faults in the namespaces of a file of `checkpoint` by those of the file.

        Names, endpoints and kubeconfigs are the same as before, so each Cluster stays valid; objects of the management
        API have new uids. Conditions may change for a moment, so wait for what your test needs. CommandError says that
        the file is none of `checkpoint`.
        """
        self.run("checkpoint", "restore", "--replace", os.fspath(file))

    def calls(self, *flags: str) -> list[Record]:
        """The calls of the cloud and its events, the oldest first: those that your controller caused, too.

        The flags are those of `nephele journal show`, such as --cluster, --machine, --operation and --fault; without
        --namespace or --all-namespaces, the records of the namespace default. Nephele remembers the last 4,096 records;
        the file `journal` has all. CommandError says that a flag is wrong.
        """
        return records_in(self.run("journal", "show", "--output", "json", *flags))

    @functools.cached_property
    def _api(self) -> Api:
        return Api(_kubeconfig.read(self.kubeconfig), self.folder)


def start(
    *,
    files: Iterable[StrPath] = (),
    objects: Iterable[Mapping[str, Any]] = (),
    attach: StrPath | None = None,
    stand_in: bool = False,
    providers: Iterable[Provider] = (),
    folder: StrPath | None = None,
    program: StrPath | None = None,
    time_limit: float = 60.0,
) -> Nephele:
    """Starts Nephele, and waits until the Clusters of files and objects are available.

    files: YAML files with objects to create at start, such as Clusters and SimulatedClouds.
    objects: objects to create after those of the files; each needs its apiVersion and kind.
    attach: the kubeconfig of an API server that runs already, such as envtest's, to use in place of the embedded one.
    stand_in: with `attach`, play Cluster API there. The API server must have no controllers of Cluster API.
        Without `attach` the stand-in always plays.
    providers: providers of Cluster API whose managers run beside Nephele, in place of the stand-in: Cluster API's own
        three, and yours. The API server and etcd are those of envtest, unless `attach` names one.
    folder: where kubeconfigs, log and journal stay after the test. The default is a new folder that is removed.
    program: the path of nephele. The default is the environment variable NEPHELE, or else `nephele` on PATH.
    time_limit: the seconds that Clusters of files and objects may take until they are available.
    """
    if stand_in and attach is None:
        raise NepheleError(
            "failed to start nephele: stand_in needs attach; without attach the stand-in always plays, so leave it out"
        )
    arguments = [argument for file in files for argument in ("--file", os.fspath(file))]
    if attach is not None:
        arguments += ["--attach", os.fspath(attach)]
    if stand_in:
        arguments.append("--stand-in")
    margin = 0.0
    for provider in providers:
        # Their managers, and an API server for them, take time of their own.
        margin = _PROVIDERS_MARGIN_SECONDS
        arguments += ["--cluster-api"] if "--cluster-api" not in arguments else []
        arguments += ["--provider", os.fspath(provider.components)]
        arguments += ["--run", f"{provider.name}={os.fspath(provider.program)}"]
    if folder is not None:
        arguments += ["--folder", os.fspath(folder)]
    # JSON is YAML.
    manifest = "".join(f"---\n{json.dumps(dict(value))}\n" for value in objects)
    try:
        process = Process(arguments, program=program, manifest=manifest.encode() or None, time_limit=time_limit, margin=margin)
    except NepheleError as error:
        raise NepheleError(f"failed to start nephele: {error}") from error.__cause__
    return Nephele(process)


def _path(collection: str, namespace: str, name: str) -> str:
    return f"{collection.format(quote(namespace, safe=''))}/{quote(name, safe='')}"


def _condition(value: Object, kind: str) -> Mapping[str, str]:
    conditions = value.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _missing(cluster: Object | None) -> str | None:
    """Why a Cluster is not available."""
    if cluster is None:
        return "it does not exist"
    if _condition(cluster, "Available").get("status") == "True":
        return None
    reasons = [
        f"{kind} is {condition['status']}: {condition.get('message', '')}"
        for kind in ("TopologyReconciled", "Available")
        if (condition := _condition(cluster, kind)) and condition["status"] != "True"
    ]
    unplayed = "nothing plays it yet; it needs spec.topology for the stand-in, or a running Cluster API"
    return "; ".join(reasons) or unplayed


def _machine(value: Object) -> Machine:
    metadata = value["metadata"]
    return Machine(
        name=metadata["name"],
        node=value.get("status", {}).get("nodeRef", {}).get("name"),
        is_control_plane=_CONTROL_PLANE_LABEL in metadata.get("labels", {}),
        is_ready=_condition(value, "Ready").get("status") == "True",
        is_deleting="deletionTimestamp" in metadata,
    )
