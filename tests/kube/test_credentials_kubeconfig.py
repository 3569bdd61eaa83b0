"""kubeconfig files are merged as by kubectl, and every error names its file and field."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.kube.client.credentials import Credentials, load_credentials
from plimsoll.kube.client.errors import CredentialsError
from plimsoll.kube.client.kubeconfig import select
from tests.kube.certificates import Authority

SECRET = "s3cr3t-t0k3n"


def config(
    server: str = "http://one:6443",
    *,
    name: str = "one",
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    current: str | None = None,
) -> dict[str, Any]:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }
    return content if current == "" else {**content, "current-context": current or name}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(path: Path, context: str | None = None) -> Credentials:
    return load_credentials(path, context, {})


async def authorization(credentials: Credentials) -> str:
    return (await credentials.authorization()).get("Authorization", "")


async def test_a_context_leads_to_a_server_a_user_and_a_namespace(tmp_path: Path) -> None:
    content = config(user={"token": SECRET}, context={"namespace": "team-a"})
    credentials = load(write(tmp_path / "config", content))
    assert credentials.server == "http://one:6443"
    assert credentials.namespace == "team-a"
    assert await authorization(credentials) == f"Bearer {SECRET}"
    assert credentials.ssl_context() is None


async def test_the_context_asked_for_wins_over_the_current_one(tmp_path: Path) -> None:
    one, two = config(), config("http://two:6443/", name="two", user={"token": "t2"})
    both = {key: one[key] + two[key] if isinstance(one[key], list) else one[key] for key in one}
    path = write(tmp_path / "config", both)
    assert load(path).server == "http://one:6443"
    assert load(path, "two").server == "http://two:6443"
    assert load(path, "two").namespace == "default"


async def test_the_first_file_that_sets_a_name_or_a_value_wins_and_entries_are_never_blended(tmp_path: Path) -> None:
    first = write(
        tmp_path / "first", {**config("http://first", user={"username": "u", "password": "p"}), "current-context": ""}
    )
    second = write(
        tmp_path / "second",
        {
            **config("http://second", user={"token": SECRET}),
            "contexts": [
                {"name": "one", "context": {"cluster": "other", "user": "one"}},
                {"name": "two", "context": {"cluster": "one", "user": "one", "namespace": "n2"}},
            ],
            "current-context": "two",
        },
    )
    third = write(tmp_path / "third", config("http://third", name="three"))
    listed = os.pathsep.join(["", str(first), str(tmp_path / "not there"), str(second), str(third)])
    credentials = load_credentials(env={"KUBECONFIG": listed})
    assert credentials.server == "http://first"  # the cluster of the first file
    assert credentials.namespace == "n2"  # current-context and a context of the second
    assert await authorization(credentials) == "Basic " + base64.b64encode(b"u:p").decode()  # no token from the second
    assert load_credentials(None, "three", {"KUBECONFIG": listed}).server == "http://third"


async def test_relative_paths_start_at_the_file_they_are_written_in(tmp_path: Path) -> None:
    write(
        tmp_path / "a" / "config",
        {"current-context": "one", "contexts": config()["contexts"], "clusters": config()["clusters"]},
    )
    write(tmp_path / "b" / "tokens" / "t", SECRET)
    write(tmp_path / "b" / "config", {"users": [{"name": "one", "user": {"tokenFile": "tokens/t"}}]})
    listed = f"{tmp_path / 'a' / 'config'}{os.pathsep}{tmp_path / 'b' / 'config'}"
    assert await authorization(load_credentials(env={"KUBECONFIG": listed})) == f"Bearer {SECRET}"


async def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    content = config()
    del content["users"]
    content["contexts"][0]["context"].pop("user")
    credentials = load(write(tmp_path / "config", content))
    assert not await credentials.authorization()


async def test_impersonation_is_carried_out(tmp_path: Path) -> None:
    user = {
        "token": "t", "as": "jane", "as-uid": "42",
        "as-groups": ["devs", "ops"], "as-user-extra": {"scopes": ["view"]},
    }  # fmt: skip
    headers = await load(write(tmp_path / "config", config(user=user))).authorization()
    assert headers["Impersonate-User"] == "jane"
    assert headers["Impersonate-Uid"] == "42"
    assert headers.getall("Impersonate-Group") == ["devs", "ops"]
    assert headers["Impersonate-Extra-scopes"] == "view"


async def test_what_other_tools_keep_there_is_passed_over(tmp_path: Path) -> None:
    content = config(cluster={"extensions": [{"name": "minikube.sigs.k8s.io", "extension": {"version": 1}}]})
    assert load(write(tmp_path / "config", {**content, "x-mine": [1, 2]})).server == "http://one:6443"


async def test_json_is_yaml(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", json.dumps(config("http://k")))).server == "http://k"


# ── where to look ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_order_in_which_kubeconfigs_are_looked_for(tmp_path: Path) -> None:
    asked = write(tmp_path / "asked", config("http://asked"))
    listed = write(tmp_path / "listed", config("http://listed"))
    env = {"HOME": str(tmp_path / "home"), "KUBECONFIG": str(listed)}
    assert load_credentials(asked, env=env).server == "http://asked"
    assert load_credentials(env=env).server == "http://listed"
    del env["KUBECONFIG"]
    with pytest.raises(CredentialsError, match=r"no cluster configured: .*home/\.kube/config does not exist"):
        load_credentials(env=env)
    with pytest.raises(CredentialsError, match="context 'x' was given, but there is no kubeconfig"):
        load_credentials(None, "x", env)
    write(tmp_path / "home" / ".kube" / "config", config("http://home"))
    assert load_credentials(env={**env, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}).server == "http://home"


async def test_a_list_of_which_nothing_exists_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"KUBECONFIG names .*nowhere.*: expected at least one to exist"):
        load_credentials(env={"KUBECONFIG": str(tmp_path / "nowhere"), "HOME": str(tmp_path)})


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("clusters: [", r"line \d+, column \d+: not YAML"),
        ("- a", "expected a mapping"),
        ("\x00", "not YAML"),
        ("", "current-context is not set .*there are none"),
        (config(current=""), "current-context is not set .*expected one of: one"),
        (config(current="two"), "current-context is 'two', which does not exist; expected one of: one"),
        (config(server=""), "cluster 'one': server: expected https://HOST:PORT, got ''"),
        (config(server="one:6443"), "server: expected https://HOST:PORT, got 'one:6443'"),
        (config(server="https://me:pw@one"), "without a user"),
        (config(server=7), r"Expected `str`, got `int` - at `\$\.clusters\[0\]\.cluster\.server`"),  # type: ignore[arg-type]
        (
            config(context={"cluster": "other"}),
            "context 'one': cluster is 'other', which does not exist; expected one of: one",
        ),
        (config(context={"cluster": ""}), "context 'one': cluster is not set"),
        (config(context={"user": "other"}), "context 'one': user is 'other', which does not exist"),
        ({**config(), "users": [{"name": "one"}, {"name": "one"}]}, "users has 'one' more than once"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider was removed from Kubernetes"),
        (config(user={"token": "a", "username": "b"}), "username and token exclude each other"),
        (config(user={"as-groups": ["a"]}), "expected `as`"),
        (config(user={"tokenFile": 5}), r"at `\$\.users\[0\]\.user\.tokenFile`"),
        (
            config(user={"client-certificate-data": "aGk="}),
            "client-certificate is set and client-key is not; expected both",
        ),
        (config(user={"client-key-data": "aGk="}), "client-key is set and client-certificate is not; expected both"),
        (config(cluster={"proxy-url": "socks5://p:1"}), "proxy-url: expected http://HOST:PORT .*the scheme 'socks5'"),
        (
            config("https://one", cluster={"certificate-authority-data": "!!"}),
            "cluster 'one': certificate-authority-data: expected base64",
        ),
        (
            config("https://one", cluster={"certificate-authority-data": "aGk="}),
            "certificate-authority holds no usable certificates",
        ),
        (
            config("https://one", cluster={"certificate-authority": "nowhere.crt"}),
            r"cluster 'one': certificate-authority: .*nowhere\.crt cannot be read: No such file",
        ),
        (
            config("https://one", cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": "aGk="}),
            "insecure-skip-tls-verify and certificate-authority exclude each other",
        ),
        (
            config("https://one", user={"client-certificate-data": "aGk=", "client-key-data": "aGk="}),
            "client-certificate and client-key do not form a pair",
        ),
    ],
)
def test_a_mistake_is_told_with_its_file_and_field(tmp_path: Path, content: Any, message: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(CredentialsError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere cannot be read: No such file"):
        load(tmp_path / "nowhere")


def test_a_context_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="the given context is 'two'"):
        load(write(tmp_path / "config", config()), "two")


async def test_a_missing_token_file_is_told_when_it_is_needed(tmp_path: Path) -> None:
    credentials = load(write(tmp_path / "config", config(user={"tokenFile": "nowhere"})))
    with pytest.raises(CredentialsError, match=r"user 'one': tokenFile: .*nowhere cannot be read"):
        await credentials.authorization()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_secret_shows_in_what_may_be_logged(tmp_path: Path) -> None:
    signed = Authority().sign("me")
    user: dict[str, Any] = {
        "token": SECRET,
        "client-certificate-data": base64.b64encode(signed.certificate).decode(),
        "client-key-data": base64.b64encode(signed.key).decode(),
        "exec": {"command": "x", "env": [{"name": "PASSWORD", "value": SECRET}]},
    }
    cluster = {"proxy-url": f"http://me:{SECRET}@proxy:3128"}
    path = write(tmp_path / "config", config("https://one", user=user, cluster=cluster))
    credentials = load(path)
    shown = repr(credentials) + str(credentials) + repr(select([path], None))
    assert SECRET not in shown
    assert user["client-key-data"] not in shown
    assert signed.key.decode() not in repr(credentials._certificate and credentials._certificate())


@pytest.mark.parametrize(
    "text",
    [
        f"users:\n- user: {{token: '{SECRET}\n",
        f"users:\n- name: a\n  user:\n    token: {SECRET}\n   bad: indent\n",
        f"users: [{{name: a, user: {{token: {SECRET}, exec: 1}}}}]",
        f"users: [{{name: a, user: {{token: [{SECRET}]}}}}]",
        yaml.safe_dump(config(cluster={"proxy-url": f"ftp://me:{SECRET}@p"})),
    ],
)
def test_no_secret_shows_in_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        load(write(tmp_path / "config", text))
    shown = repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
    assert SECRET not in shown
