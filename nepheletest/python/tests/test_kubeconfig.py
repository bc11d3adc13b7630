"""Which kubeconfigs are understood."""

import base64
import json
from pathlib import Path

import pytest
from nepheletest import NepheleError
from nepheletest._kubeconfig import Access, parse, read


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


YAML = f"""
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {encoded("authority")}
    server: https://127.0.0.1:1
  name: server
contexts: [{{name: c, context: {{cluster: server, user: token}}}}]
current-context: c
users:
- name: token
  user:
    client-certificate-data: {encoded("certificate")}
    client-key-data: "{encoded("key")}"
"""


def test_yaml_with_one_cluster_and_user_is_understood() -> None:
    assert parse(YAML) == Access("https://127.0.0.1:1", "authority", "certificate", "key")


def test_json_is_understood() -> None:
    config = {
        "clusters": [{"name": "a", "cluster": {"server": "https://a"}}],
        "users": [{"name": "b", "user": {"token": "secret"}}],
    }
    assert parse(json.dumps(config)) == Access("https://a", token="secret")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (YAML + "- user:\n    client-key-data: eA==\n", "it has client-key-data more than once"),
        (YAML + "- user:\n    exec:\n      command: login\n", "does not understand its exec"),
        (json.dumps({"clusters": [{}, {}]}), "it has 2 clusters, and not one"),
        ("clusters: []", "it has no server"),
        ("server: https://a\nclient-key-data: '?'", "its client-key-data is not base64"),
    ],
)
def test_anything_else_is_refused_with_advice(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(NepheleError, match=f"failed to read the kubeconfig {path}: .*{reason}.*kubectl .*--minify"):
        read(path)
