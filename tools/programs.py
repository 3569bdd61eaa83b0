"""`python -m tools.programs [--if-possible]`: build what tests run beside a control plane, once, into the user's cache.

Each is built by itself where it is first needed, too; but a test that waits minutes for a compiler outlasts its time limit, and so
does every other that waits for the same program.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tools.controlplane.gobuild import GoBuildError
from tools.dockerfile import dockerfile_checker
from tools.helm import helm
from tools.promtool import promtool


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.programs", description=__doc__)
    parser.add_argument(
        "--if-possible",
        action="store_true",
        help="where they cannot be built, say so and succeed; but fail where CI=true",
    )
    options = parser.parse_args(arguments)
    try:
        for build in (helm, promtool, dockerfile_checker):
            print(build())
    except GoBuildError as error:
        forgiven = options.if_possible and os.environ.get("CI") != "true"
        print(f"{'warning' if forgiven else 'error'}: {error}", file=sys.stderr)
        return 0 if forgiven else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
