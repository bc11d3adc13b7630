"""A test that is killed leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# A test that starts Nephele, and has a forked child that outlives it, as workers of multiprocessing can.
VICTIM = """
import json, os, signal, sys
import nepheletest
from samples import cluster_with

nephele = nepheletest.start(objects=[cluster_with("small", 1)])
child = os.fork()
if child != 0:
    print(json.dumps({"pid": nephele._process.pid, "child": child, "folder": str(nephele.folder)}), flush=True)
signal.pause()
"""

SECONDS_MAX = 20


def is_running(pid: int) -> bool:
    """False also for an ended process whose exit status was not read: in a container, it often is not."""
    try:
        # The name in parentheses can contain anything. The state follows it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_test_leaves_nothing_behind(tmp_path: Path) -> None:
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path},
        stdout=subprocess.PIPE,
    )
    assert victim.stdout is not None
    facts = json.loads(victim.stdout.readline())
    try:
        victim.kill()
        victim.wait()
        assert Path(facts["folder"]).parent == tmp_path
        deadline = time.monotonic() + SECONDS_MAX
        while left := ([facts["pid"]] if is_running(facts["pid"]) else []) + list(tmp_path.iterdir()):
            assert time.monotonic() < deadline, f"{left} is left after {SECONDS_MAX} s"
            time.sleep(0.02)
        assert is_running(facts["child"]), "the life line did not depend on it"
    finally:
        os.kill(facts["child"], signal.SIGKILL)
        victim.stdout.close()
