"""Which Kubernetes a wish means."""

from __future__ import annotations

import pytest

from tools.controlplane.versions import (
    PINNED_PATCHES,
    UnsupportedVersionError,
    Versions,
    machine,
    newest_kubernetes,
    wanted_versions,
)


def test_four_minors_are_supported_and_the_newest_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES", raising=False)
    assert list(PINNED_PATCHES) == ["1.34", "1.35", "1.36", "1.37"]
    assert wanted_versions().kubernetes == newest_kubernetes() == "1.37.1"


def test_the_committed_module_is_the_pinned_patch_of_its_minor() -> None:
    assert PINNED_PATCHES["1.37"] == newest_kubernetes()


@pytest.mark.parametrize(
    ("wish", "version"),
    [("1.34.4", "1.34.4"), ("v1.34.4", "1.34.4"), ("1.34", "1.34.4"), ("1.35", "1.35.4"), (" 1.37 ", "1.37.1")],
)
def test_the_environment_selects_a_release_or_a_minor(monkeypatch: pytest.MonkeyPatch, wish: str, version: str) -> None:
    monkeypatch.setenv("KUBERNETES", wish)
    assert wanted_versions().kubernetes == version


def test_an_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES", "1.34")
    assert wanted_versions("1.35").kubernetes == PINNED_PATCHES["1.35"]


@pytest.mark.parametrize("wish", ["1.33", "1.38.0", "2.0"])
def test_another_minor_is_refused_with_those_that_are_supported(wish: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=rf"{wish} is not supported: .* 1\.34, 1\.35, 1\.36, 1\.37"):
        wanted_versions(wish)


@pytest.mark.parametrize("wish", ["newest", "1", "1.34.x", "1.34.4-rc.0"])
def test_what_is_no_version_is_refused_with_what_was_expected(wish: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"expected a minor such as 1\.34 or a release"):
        wanted_versions(wish)


def test_the_cache_key_tells_every_version_and_the_machine_apart() -> None:
    versions = Versions("1.37.1", "3.6.16", "0.8.0")
    assert versions.cache_key == f"kubernetes-1.37.1-etcd-3.6.16-kwok-0.8.0-{machine()}"
    others = [
        Versions("1.37.0", "3.6.16", "0.8.0"),
        Versions("1.37.1", "3.6.15", "0.8.0"),
        Versions("1.37.1", "3.6.16", "0.7.0"),
    ]
    assert len({versions.cache_key, *(other.cache_key for other in others)}) == 4
