from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.docs.pages import PAGES, stale, write

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs", description="Write the generated pages of docs/ and files of the chart anew."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is not what would be written"
    )
    if not parser.parse_args().check:
        write(ROOT)
        return 0
    for name in (found := stale(ROOT)):
        print(f"{name} is stale: run `make docs` and commit the result", file=sys.stderr)
    print(f"{len(PAGES) - len(found)} of {len(PAGES)} generated pages are up to date")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
