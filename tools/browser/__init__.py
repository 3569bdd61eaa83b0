"""The Chromium of this machine, for the tests of the dashboard: found, never downloaded beside the system's packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIABLE = "PLIMSOLL_BROWSER"
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")


class BrowserUnavailableError(Exception):
    """There is no browser; the message says how to get one."""


def find_browser() -> Path:
    """The program that $PLIMSOLL_BROWSER names, or the first of the usual names on the path."""
    named = os.environ.get(VARIABLE)
    if named:
        if found := shutil.which(named):
            return Path(found)
        raise BrowserUnavailableError(f"{VARIABLE} is {named!r}, which is no program: set it to the path of a Chromium")
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    raise BrowserUnavailableError(
        f"none of {', '.join(NAMES)} is installed: `make browser` installs Chromium where apt-get and root are at hand; "
        f"elsewhere install it yourself, or set {VARIABLE} to the path of one"
    )
