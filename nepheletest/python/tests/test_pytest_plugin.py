"""The fixture `nephele`, in a session of pytest within the test."""

import json

import pytest
from samples import cluster_with


def test_files_of_the_settings_are_created(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nnephele_files = clusters/small.yaml")
    pytester.mkdir("clusters").joinpath("small.yaml").write_text(json.dumps(cluster_with("small", 0)))
    pytester.makepyfile(
        """
        def test_first(nephele):
            assert nephele.cluster("small").machines()[0].is_ready

        def test_second(nephele, pytestconfig):
            assert nephele.cluster("small").kubeconfig.is_file()
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_failed_test_shows_the_log(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_with(nephele):
            assert nephele.wait_until("it is so", lambda: False, time_limit=0)

        def test_without():
            assert False
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    expected = ["*failed to wait until it is so*", "*- Nephele -*", "the last lines of the log */up.log:"]
    result.stdout.fnmatch_lines(expected)
    assert result.stdout.str().count("- Nephele -") == 1


def test_failed_start_shows_the_reason_alone(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nnephele_files = absent.yaml")
    pytester.makepyfile("def test_with(nephele): pass")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["failed to start nephele: failed to read */absent.yaml*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*another exception*")
