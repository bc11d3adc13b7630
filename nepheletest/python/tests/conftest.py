"""Settings of pytest for all tests."""

pytest_plugins = ["pytester"]
