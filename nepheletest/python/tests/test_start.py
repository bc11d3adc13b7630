"""Start and end."""

import os
import signal
from pathlib import Path

import nepheletest
import pytest
from nepheletest._api import Api
from nepheletest._kubeconfig import read
from samples import cluster_with


def test_end_removes_the_folder_and_can_be_asked_for_twice() -> None:
    with nepheletest.start(objects=[cluster_with("small", 0)]) as nephele:
        for path in (nephele.kubeconfig, nephele.log, nephele.journal, nephele.cluster("small").kubeconfig):
            assert path.parent == nephele.folder
            assert path.is_file()
    assert not nephele.folder.exists()
    nephele.close()


def test_folder_of_the_user_stays(tmp_path: Path) -> None:
    with nepheletest.start(objects=[cluster_with("small", 0)], folder=tmp_path) as nephele:
        assert nephele.folder == tmp_path
    assert nephele.journal.is_file()


# An API server of another Nephele stands for envtest's. No cluster is in it, because two managers would both run it.
def test_attached_nephele_uses_the_given_api_server() -> None:
    with nepheletest.start() as given, nepheletest.start(attach=given.kubeconfig) as attached:
        assert attached.server == given.server
        api = Api(read(attached.kubeconfig), attached.folder)
        assert api.get("/api/v1/namespaces/default/secrets") is not None


def test_stand_in_without_attach_is_refused() -> None:
    with pytest.raises(nepheletest.NepheleError, match="failed to start nephele: stand_in needs attach"):
        nepheletest.start(stand_in=True)


def test_missing_program_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "absent"
    advice = "build it with `cargo build --release`.* set NEPHELE"
    with pytest.raises(nepheletest.NepheleError, match=rf"program {absent} \(from program\); {advice}"):
        nepheletest.start(program=absent)
    monkeypatch.setenv("NEPHELE", str(absent))
    with pytest.raises(nepheletest.NepheleError, match=rf"program {absent} \(from the environment variable NEPHELE\)"):
        nepheletest.start()
    monkeypatch.delenv("NEPHELE")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(nepheletest.NepheleError, match=r"program nephele \(from PATH\)"):
        nepheletest.start()


def test_mistake_in_a_file_reaches_the_developer(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("apiVersion: [")
    with pytest.raises(nepheletest.NepheleError, match=f"failed to start nephele: .* document 1 of {broken}"):
        nepheletest.start(files=[broken])
    with pytest.raises(nepheletest.NepheleError, match=r"failed to read absent\.yaml"):
        nepheletest.start(files=["absent.yaml"])
    with pytest.raises(nepheletest.NepheleError, match="document 2 of objects has no apiVersion"):
        nepheletest.start(objects=[cluster_with("small", 0), {"kind": "A"}])


def test_cluster_that_cannot_be_created_is_an_error_with_the_log(tmp_path: Path) -> None:
    with pytest.raises(nepheletest.NepheleError) as caught:
        nepheletest.start(objects=[cluster_with("small", -1)], folder=tmp_path)
    assert "Cluster default/small cannot be created" in str(caught.value)
    assert f"the last lines of the log {tmp_path}/up.log:" in str(caught.value)


def test_cluster_that_is_not_available_in_time_is_an_error(tmp_path: Path) -> None:
    # Nothing plays Cluster API for a Cluster without a topology.
    lonely = cluster_with("lonely", 0) | {"spec": {}}
    with pytest.raises(nepheletest.NepheleError, match=r"not all Clusters are available within 100ms.*default/lonely"):
        nepheletest.start(objects=[lonely], folder=tmp_path, time_limit=0.1)


def test_end_of_nephele_ends_waits(tmp_path: Path) -> None:
    nephele = nepheletest.start(folder=tmp_path)
    os.kill(nephele._process.pid, signal.SIGKILL)
    with pytest.raises(nepheletest.WaitError, match=r"failed to wait until it is over: nephele ended: .* status -9"):
        nephele.wait_until("it is over", lambda: False)
    with pytest.raises(nepheletest.NepheleError, match="nephele ended before the test"):
        nephele.close()
