"""Fixtures for pytest. The plugin is active where nepheletest is installed.

The fixture `nephele` starts Nephele once per session, when the first test asks for it. It creates the objects of the
files in the setting `nephele_files`:

    [tool.pytest.ini_options]
    nephele_files = ["clusters.yaml"]

For other arguments of `nepheletest.start`, override the fixture `nephele_options` in conftest.py:

    @pytest.fixture(scope="session")
    def nephele_options():
        return {"objects": [my_cluster], "folder": "artifacts"}

The report of a failed test that uses the fixture has the end of Nephele's log. With pytest-xdist, each worker has a
Nephele of its own.
"""

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from nepheletest import Nephele, NepheleError, _log, start

_STARTED = pytest.StashKey[Nephele]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the setting `nephele_files`."""
    parser.addini(
        "nephele_files", "YAML files with objects that the fixture `nephele` creates at start", type="paths", default=[]
    )


@pytest.fixture(scope="session")
def nephele_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of `nepheletest.start` for the fixture `nephele`. Override it to change them."""
    return {"files": pytestconfig.getini("nephele_files")}


@pytest.fixture(scope="session")
def nephele(pytestconfig: pytest.Config, nephele_options: dict[str, Any]) -> Iterator[Nephele]:
    """A running Nephele, which all tests of the session share. Give Clusters different names or namespaces."""
    try:
        started = start(**nephele_options)
    except NepheleError as error:
        # The developer needs the message, and not the frames of this package.
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    pytestconfig.stash[_STARTED] = started
    yield started
    del pytestconfig.stash[_STARTED]
    started.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the end of Nephele's log to the report of a failed test."""
    report = yield
    started = item.config.stash.get(_STARTED, None)
    if report.failed and started is not None and "nephele" in getattr(item, "fixturenames", ()):
        report.sections.append(("Nephele", _log.describe(started.log).strip()))
    return report
