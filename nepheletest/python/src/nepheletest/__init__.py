"""Start Nephele for a test: a management API for Cluster API and workload clusters, without Kubernetes or containers.

    with nepheletest.start(files=["clusters.yaml"]) as nephele:
        small = nephele.wait_for_cluster("small")
        run_my_controller(nephele.kubeconfig)
        # … and look at what it does in the workload cluster, with small.kubeconfig.

With pytest, the fixture `nephele` does the same; see `nepheletest.pytest_plugin`.

A test can also break and steer the cloud, with `fault`, `scenario`, `clock`, `checkpoint` and `restore`, and read what
a controller caused, with `calls`.

The program is the one that the environment variable NEPHELE names, or else `nephele` on PATH. It ends with the test,
also when the test is killed: its standard input is a pipe that the kernel closes then.
"""

from nepheletest._errors import CommandError, NepheleError, WaitError
from nepheletest._fault import Fault
from nepheletest._journal import Record
from nepheletest._nephele import Cluster, Machine, Nephele, Provider, start

__all__ = [
    "Cluster",
    "CommandError",
    "Fault",
    "Machine",
    "Nephele",
    "NepheleError",
    "Provider",
    "Record",
    "WaitError",
    "start",
]
