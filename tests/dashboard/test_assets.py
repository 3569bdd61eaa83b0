"""The page's files: what others wrote is unchanged and licensed, nothing is inline, nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from plimsoll.dashboard.server import ASSETS

AXE = Path(__file__).parent / "browser" / "axe"
OURS = [path for path in sorted(ASSETS.rglob("*")) if path.is_file() and "vendor" not in path.parts]
IMPORT = re.compile(r'^(?:import|export) (?:.* from )?"([^"]+)";$', re.MULTILINE)


@pytest.mark.parametrize("folder", [ASSETS / "vendor" / "uplot", AXE], ids=["uPlot", "axe"])
def test_vendored_files_are_those_that_were_published(folder: Path):
    lines = (folder / "VENDORED.txt").read_text().split("sha256\n")[1].splitlines()
    told = {name: digest for digest, name in (line.split() for line in lines)}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "VENDORED.txt"
    }
    assert found == told
    assert "LICENSE" in told


def test_the_page_has_no_inline_script_or_style():
    page = (ASSETS / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ASSETS)))
def test_a_file_of_ours_trusts_no_markup_and_no_other_site(path: Path):
    text = path.read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) == []
    addresses = set(re.findall(r"https?://[^\s\"')]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    for imported in IMPORT.findall(text):
        assert (path.parent / imported).resolve().is_file(), imported


def test_everything_that_the_page_refers_to_is_there():
    for reference in re.findall(r'(?:src|href)="(assets/[^"]+)"', (ASSETS / "index.html").read_text()):
        assert (ASSETS.parent / reference).is_file(), reference


def test_every_module_is_asked_for_at_once():
    """Level by level, a page of thirty modules takes as many round trips as imports are deep."""
    preloaded = re.findall(r'<link rel="modulepreload" href="assets/([^"]+)">', (ASSETS / "index.html").read_text())
    found: set[Path] = set()
    waiting = [ASSETS / "main.js"]
    while waiting:
        path = waiting.pop()
        news = {(path.parent / one).resolve() for one in IMPORT.findall(path.read_text())} - found
        found |= news
        waiting += news
    assert sorted(preloaded) == sorted(path.relative_to(ASSETS.resolve()).as_posix() for path in found)


def test_every_colour_has_a_dark_and_a_light_value_and_is_said_once():
    theme = (ASSETS / "css" / "theme.css").read_text()
    blocks = re.findall(r"^(:root[^{]*)\{(.*?)^\}", theme, re.MULTILINE | re.DOTALL)
    names = {selector.strip(): re.findall(r"^  (--[\w-]+):", body, re.MULTILINE) for selector, body in blocks}
    assert set(names) == {":root", ':root[data-theme="dark"]'}
    fonts = {"--sans", "--mono"}
    assert sorted(set(names[":root"]) - fonts) == sorted(names[':root[data-theme="dark"]'])
