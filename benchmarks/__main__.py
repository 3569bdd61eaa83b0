"""Runs every benchmark, one after the other: `python -m benchmarks [--json] [--list] [NAME …]`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import pkgutil
import subprocess
import sys

import benchmarks
from benchmarks.report import progress

_SHARED = ("__main__", "operator_process", "report")


def names() -> list[str]:
    """The modules and packages beside this file that can be run."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if module.name not in _SHARED
        and (not module.ispkg or importlib.util.find_spec(f"benchmarks.{module.name}.__main__"))
    )


def main() -> int:
    known = names()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(known)}")
    parser.add_argument("--json", action="store_true", help="one JSON object: the reports by name")
    parser.add_argument("--list", action="store_true", help="the names, and nothing more")
    options = parser.parse_args()
    if options.list:
        print("\n".join(known))
        return 0
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no benchmark {', '.join(unknown)}: there is {', '.join(known)}")
    reports: dict[str, object] = {}
    failed: list[str] = []
    for name in options.names or known:
        progress(f"── {name}")
        # A separate process each, so that no benchmark runs with the memory or caches of another.
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--json"] if options.json else [])]
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE if options.json else None)
        if done.returncode:
            failed.append(name)
        if options.json:
            lines = done.stdout.splitlines()
            reports[name] = json.loads(lines[-1]) if lines else None
    if options.json:
        print(json.dumps(reports, ensure_ascii=False))
    for name in failed:
        progress(f"{name} failed, or did not keep what it promises")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
