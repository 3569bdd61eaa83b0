"""`plimsoll cluster`, as a module that a benchmark can start."""

from __future__ import annotations

from plimsoll.cli import main

if __name__ == "__main__":
    main(["cluster"])
