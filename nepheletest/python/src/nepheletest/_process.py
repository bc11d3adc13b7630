"""A running `nephele up --json`."""

import contextlib
import json
import math
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from nepheletest import _log
from nepheletest._errors import CommandError, NepheleError, command_line

# What a start may take beyond the time limit for Clusters: an attached API server may take 15 s until it serves our
# definitions.
_START_MARGIN_SECONDS = 30.0
# How long nephele may take to end. It gives its own tasks 10 s.
_STOP_SECONDS_MAX = 20.0

# How often a command is asked whether Nephele is still there. The end of the command is seen at once.
_LOOK_SECONDS = 0.2
# They would lead requests for this machine elsewhere.
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}

# The report has some 200 bytes per cluster.
_REPORT_BYTES_MAX = 64 * 1024 * 1024

_HOW_TO_GET_IT = (
    "build it with `cargo build --release` in a checkout of Nephele, and set NEPHELE to the path of "
    "target/release/nephele"
)

_running: "weakref.WeakSet[Process]" = weakref.WeakSet()


class Process:
    """Starts nephele and waits until it is up. `report` is what it then printed."""

    def __init__(
        self,
        arguments: Iterable[str],
        *,
        program: str | os.PathLike[str] | None,
        manifest: bytes | None,
        time_limit: float,
        margin: float = 0.0,
    ) -> None:
        self._program = find_program(program)
        command = [self._program, "up", "--json", "--time-limit", f"{time_limit:.3f}s", *arguments]
        self._tail = bytearray()
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._input_name = ""
        with tempfile.TemporaryFile() as file:
            # A file without a name: nothing of it stays behind when the test is killed.
            descriptors = []
            if manifest is not None:
                file.write(manifest)
                file.seek(0)
                descriptors.append(file.fileno())
                self._input_name = f"/dev/fd/{file.fileno()}"
                command += ["--file", self._input_name]
            self._popen = _popen(command, descriptors)
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        assert stdin is not None and stdout is not None and stderr is not None, "all three are pipes"
        # The life line: nephele ends when it closes. The kernel closes it when this process is killed.
        self._life_line = stdin
        self._readers = [_in_background(self._read_report, stdout), _in_background(self._read_errors, stderr)]
        _running.add(self)
        try:
            self.report = self._await_report(time_limit + _START_MARGIN_SECONDS + margin)
        except BaseException:
            self._end()
            raise

    @property
    def pid(self) -> int:
        return self._popen.pid

    def has_exited(self) -> bool:
        return self._popen.poll() is not None

    def stop(self) -> None:
        """Ends the process in an orderly way. An error says that it was over before, or did not end well."""
        if self.has_exited():
            raise NepheleError(f"nephele ended before the test: {self.failure()}")
        if not self._end():
            raise NepheleError(
                f"failed to end nephele within {_STOP_SECONDS_MAX} s after its standard input closed; it was killed"
            )
        if self._popen.returncode != 0:
            raise NepheleError(f"failed to end nephele in an orderly way: {self.failure()}")

    def run(self, arguments: Sequence[str], kubeconfig: Path, *, time_limit: float | None = None) -> str:
        """Runs another command of the same program, and returns what it prints.

        The command ends as soon as Nephele ends: it would wait for a Nephele that is gone. It is killed at its time limit.
        """
        deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        environment = {name: value for name, value in os.environ.items() if name.upper() not in _PROXIES}
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            try:
                command = subprocess.Popen(
                    [self._program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=environment | {"KUBECONFIG": str(kubeconfig)},
                )
            except OSError as error:
                raise NepheleError(f"failed to run {command_line(arguments)}: {error}") from error
            with _killed_at_the_end(command):
                while command.poll() is None and not self.has_exited() and time.monotonic() < deadline:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        command.wait(_LOOK_SECONDS)
            stdout.seek(0)
            if command.returncode == 0:
                return stdout.read().decode()
            if self.has_exited():
                raise NepheleError(f"failed to run {command_line(arguments)}: nephele ended: {self.failure()}")
            stderr.seek(max(stderr.seek(0, os.SEEK_END) - _log.BYTES_MAX, 0))
            said = stderr.read().decode(errors="replace")
        raise CommandError(arguments, command.returncode, said)

    def failure(self) -> str:
        """Why the process ended, in its own words, with the end of its log."""
        for reader in self._readers:
            reader.join(timeout=1)
        said = self._said()
        status = f"exit status {self._popen.wait()}"
        if not said:
            return f"nephele ended with {status} and said nothing"
        return f"{said} ({status}){_log.describe(_log.named_in(said))}"

    def let_go(self) -> None:
        """Closes our end of the life line and does nothing else."""
        self._life_line.close()

    def _await_report(self, seconds: float) -> Mapping[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise NepheleError(f"nephele does not say within {seconds} s whether it is up: {self._said()}") from None
        if not line:
            raise NepheleError(self.failure())
        try:
            report: Mapping[str, Any] = json.loads(line)
        except ValueError as error:
            raise NepheleError(f"failed to read what nephele reports; is it another version? {error}") from error
        return report

    def _end(self) -> bool:
        """Closes the life line, waits, and returns whether the process ended by itself."""
        self.let_go()
        try:
            self._popen.wait(_STOP_SECONDS_MAX)
            return True
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            return False

    def _read_report(self, stdout: IO[bytes]) -> None:
        """Passes on the first line, which is empty if there is none, and drops the rest."""
        with stdout:
            self._lines.put(stdout.readline(_REPORT_BYTES_MAX))
            while stdout.read(64 * 1024):
                pass

    def _read_errors(self, stderr: IO[bytes]) -> None:
        """Keeps the end of the standard error."""
        with stderr:
            while part := os.read(stderr.fileno(), 64 * 1024):
                self._tail += part
                del self._tail[: -_log.BYTES_MAX]

    def _said(self) -> str:
        said = bytes(self._tail).decode(errors="replace").strip().removeprefix("Error: ")
        return said.replace(self._input_name, "objects") if self._input_name else said


def find_program(wanted: str | os.PathLike[str] | None) -> str:
    """Resolves the path of the program."""
    origin = "program"
    if wanted is None:
        wanted, origin = os.environ.get("NEPHELE"), "the environment variable NEPHELE"
    if not wanted:
        wanted, origin = "nephele", "PATH"
    path = shutil.which(wanted)
    if path is None:
        raise NepheleError(f"failed to find the program {os.fspath(wanted)} (from {origin}); {_HOW_TO_GET_IT}")
    return str(Path(path).absolute())


def _popen(command: list[str], descriptors: list[int]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            # Ctrl-C reaches only the test, whose cleanup may still need the API server.
            start_new_session=True,
        )
    except OSError as error:
        raise NepheleError(f"failed to run {command[0]}: {error}") from error


@contextlib.contextmanager
def _killed_at_the_end(command: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Leaves no command behind, also when a developer interrupts the test."""
    try:
        yield
    finally:
        command.kill()
        command.wait()


def _in_background(read: Any, stream: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=read, args=(stream,), name="nepheletest", daemon=True)
    thread.start()
    return thread


def _let_go_in_child() -> None:
    """A forked child, such as a worker of multiprocessing, must not hold the life line: it may outlive the test."""
    for process in list(_running):
        process.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)
