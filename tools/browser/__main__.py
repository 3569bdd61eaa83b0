"""`python -m tools.browser [--if-possible]`: print where the browser is; install the system's where it has none."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

from tools.browser import INSTALL, BrowserUnavailableError, find_browser


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.browser", description=__doc__)
    parser.add_argument(
        "--if-possible", action="store_true", help="no failure where no browser can be had: tests say it"
    )
    options = parser.parse_args()
    try:
        print(find_browser())
    except BrowserUnavailableError as error:
        if not _can_install() or not _install():
            print(f"{'note' if options.if_possible else 'error'}: {error}", file=sys.stderr)
            return 0 if options.if_possible else 1
        print(find_browser())
    return 0


def _can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install() -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update", "-q"), INSTALL):
        print(f"+ {' '.join(command)}", file=sys.stderr, flush=True)
        if subprocess.run(command, check=False, env=environment, stdout=sys.stderr).returncode:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
