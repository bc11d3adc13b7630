"""A test breaks and steers the cloud. The tests share one Nephele, and each has a namespace of its own."""

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import timezone
from http.cookiejar import CookieJar
from pathlib import Path

import nepheletest
import pytest
from nepheletest import Cluster, CommandError, Machine, Nephele, NepheleError, Record, WaitError
from nepheletest._api import Api
from nepheletest._journal import records_in
from nepheletest._kubeconfig import read
from nepheletest._log import describe_page
from samples import cluster_with

CLOUD = {
    "apiVersion": "cloud.nephele.dev/v1alpha1",
    "kind": "SimulatedCloud",
    "metadata": {"namespace": "clocked", "name": "default"},
    "spec": {},
}


@pytest.fixture(scope="module")
def nephele() -> Iterator[Nephele]:
    clusters = [cluster_with("small", 1, namespace) for namespace in ("default", "broken", "clocked")]
    with nepheletest.start(objects=[CLOUD, *clusters]) as started:
        yield started


def scale(nephele: Nephele, cluster: Cluster, workers: int) -> None:
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{cluster.namespace}/clusters/{cluster.name}"
    wanted = cluster_with(cluster.name, workers)["spec"]
    Api(read(nephele.kubeconfig), nephele.folder).merge(path, {"spec": wanted})


def wait_for_machines(nephele: Nephele, cluster: Cluster, *, total: int, ready: int) -> list[Machine]:
    def seen() -> list[Machine]:
        machines = cluster.machines()
        assert (len(machines), sum(machine.is_ready for machine in machines)) == (total, ready), machines
        return machines

    return nephele.wait_until(f"{ready} of {total} Machines are ready", seen)


def write_scenario(folder: Path, name: str, *steps: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"""
apiVersion: cloud.nephele.dev/v1alpha1
kind: Scenario
metadata: {{name: {name}}}
spec: {{steps: [{", ".join(steps)}]}}
"""
    )
    return path


def test_fault_keeps_a_machine_out_until_it_is_healed(nephele: Nephele) -> None:
    small = nephele.cluster("small", namespace="broken")
    flags = ["--operation", "CreateInstance", "--namespace", "broken"]
    with nephele.fault("fail: {reason: InsufficientCapacity}", *flags) as fault:
        scale(nephele, small, 2)
        wait_for_machines(nephele, small, total=3, ready=2)
        assert nephele.wait_until("the Fault has hit", fault.hits) > 0
        refused = nephele.calls("--namespace", "broken", "--fault", fault.name, "--operation", "CreateInstance")[0]
        assert refused == Record(
            sequence=refused.sequence,
            time=refused.time,
            namespace="broken",
            cluster="small",
            kind="Machine",
            name=refused.name,
            operation="CreateInstance",
            caller="machine",
            outcome="InsufficientCapacity",
            event="",
            message=f"there is not enough capacity (Fault {fault.name})",
            faults=(fault.name,),
            hit=True,
        )
        assert refused.sequence > 0
        assert refused.time.tzinfo == timezone.utc
    with pytest.raises(NepheleError, match=f"failed to read the hits of the Fault broken/{fault.name}"):
        fault.hits()
    fault.heal()
    wait_for_machines(nephele, small, total=3, ready=3)


def test_fault_of_all_namespaces_is_healed(nephele: Nephele) -> None:
    with nephele.fault("freeze", "--all-namespaces", "--name", "nowhere", "--zone", "nowhere") as fault:
        assert (str(fault), fault.namespace, fault.hits()) == ("ClusterFault nowhere", None, 0)
    assert nephele.run("get", "clusterfaults") == ""


def test_preview_says_what_a_fault_would_hit(nephele: Nephele) -> None:
    said = nephele.preview("notReady", "--machines", "!cluster.x-k8s.io/control-plane")
    assert "selects 1 of 2 machines" in said
    assert nephele.run("get", "faults") == ""


def test_clock_stands_still_until_it_is_stepped(nephele: Nephele) -> None:
    small = nephele.cluster("small", namespace="clocked")
    nephele.clock("--pause", "--namespace", "clocked")
    scale(nephele, small, 2)

    def created() -> bool:
        return len(nephele.calls("--namespace", "clocked", "--operation", "CreateInstance")) == 3

    nephele.wait_until("the cloud creates the third instance", created)
    wait_for_machines(nephele, small, total=3, ready=2)
    # Its instance and its Node.
    nephele.clock("--step", "2", "--namespace", "clocked")
    wait_for_machines(nephele, small, total=3, ready=3)


def test_scenario_that_fails_names_its_step(nephele: Nephele, tmp_path: Path) -> None:
    is_up = "{name: cluster-is-up, wait: {cluster: small, condition: Available, within: 10s}}"
    run = "{name: machines-run, expect: {machines: {cluster: small, phase: Running, count: 9}, within: 1s}}"
    nephele.scenario(write_scenario(tmp_path, "passes", is_up))
    with pytest.raises(CommandError) as caught:
        nephele.scenario(write_scenario(tmp_path, "fails", is_up, run))
    said = "(exit code 1): Scenario fails has failed: machines-run: 2 of 2 machines are Running, not 9"
    assert said in str(caught.value)


def test_restore_gives_back_what_the_checkpoint_has(nephele: Nephele, tmp_path: Path) -> None:
    small = nephele.cluster("small")
    before = small.machines()
    nephele.checkpoint(tmp_path / "prepared.json")
    with nephele.fault("notReady"):
        scale(nephele, small, 2)
        wait_for_machines(nephele, small, total=3, ready=0)
        # The Fault is gone with what the checkpoint does not have.
        nephele.restore(tmp_path / "prepared.json")
    assert wait_for_machines(nephele, small, total=2, ready=2) == before
    assert nephele.cluster("small") == small
    with pytest.raises(CommandError, match="absent.json"):
        nephele.restore("absent.json")


def test_command_that_is_wrong_fails_in_the_words_of_the_program(
    nephele: Nephele, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with pytest.raises(CommandError) as caught:
        nephele.fault("notReddy: {}", "--count", "1")
    error = caught.value
    assert str(error).startswith("failed to run `nephele fault add 'notReddy: {}' --count 1` (exit code 2): ")
    assert "there is no effect notReddy; did you mean notReady?" in error.stderr
    assert (error.arguments, error.exit_code) == (("fault", "add", "notReddy: {}", "--count", "1"), 2)
    with pytest.raises(NepheleError, match="failed to find the Fault in what `nephele fault add` says: .*"):
        nephele.fault("notReady", "--dry-run")
    with pytest.raises(CommandError, match="only a SimulatedCloud has a clock"):
        nephele.clock("--pause")
    with pytest.raises(CommandError, match="absent"):
        nephele.scenario("absent")
    with pytest.raises(CommandError, match="--no-such-flag"):
        nephele.calls("--no-such-flag", "CreateInstance")


def test_command_ends_with_nephele(tmp_path: Path) -> None:
    rest = write_scenario(tmp_path, "rest", "{pause: 10m}")
    nephele = nepheletest.start(folder=tmp_path / "nephele")

    def kill_when_it_runs() -> None:
        nephele.wait_until("the scenario runs", lambda: "Running" in nephele.run("get", "scenarios"))
        # The command follows the scenario within moments.
        time.sleep(0.3)
        os.kill(nephele._process.pid, signal.SIGKILL)

    kill = threading.Thread(target=kill_when_it_runs)
    kill.start()
    # It would follow the scenario for an hour.
    with pytest.raises(NepheleError, match=r"failed to run `nephele scenario run .*`: nephele ended: .* status -9"):
        nephele.scenario(rest)
    kill.join()


def test_failed_wait_names_the_faults_and_ends_with_the_link_to_the_page(nephele: Nephele) -> None:
    assert nephele.page is not None
    with nephele.fault("notReady", "--name", "forgotten"), pytest.raises(WaitError) as caught:
        nephele.wait_until("it is so", lambda: False, time_limit=0)
    assert "\nthere are Faults:\n" in str(caught.value)
    assert "forgotten" in str(caught.value)
    assert str(caught.value).endswith(f"\nuntil Nephele ends, its page shows what is there: {nephele.page}")
    # The key of the address is exchanged for a cookie.
    browser = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with browser.open(nephele.page) as answer:
        assert answer.status == 200
    assert describe_page(None) == ""


def test_record_can_have_less_and_more_than_we_use() -> None:
    line = '{"sequence": 3, "time": "2026-11-30T00:28:36.94Z", "event": "Deleted", "later": 1}'
    [record] = records_in(f"{line}\n")
    assert record.time.isoformat() == "2026-11-30T00:28:36.940000+00:00"
    assert (record.sequence, record.event, record.operation, record.faults) == (3, "Deleted", "", ())
    with pytest.raises(NepheleError, match="failed to read record 2 of the journal"):
        records_in(f"{line}\nnone")
