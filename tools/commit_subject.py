"""Checks the subject of a commit message: `area: change`, at most 72 characters. pre-commit runs it as a commit-msg hook."""

from __future__ import annotations

import re
import sys
from pathlib import Path

MAX_CHARACTERS = 72
# One or several areas in lower case, a colon, a space, and the change.
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9_./-]*(, [a-z0-9][a-z0-9_./-]*)*: \S.*")
_WRITTEN_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def problem_in(message: str) -> str | None:
    """What is wrong with a commit message, or None."""
    subject = message.split("\n", 1)[0].rstrip()
    if subject.startswith(_WRITTEN_BY_GIT):
        return None
    if not subject:
        return "the subject is empty; write it like `scheduling: respect CSI attach limits`"
    if not _SUBJECT.fullmatch(subject):
        return f"{subject!r} has no area; write it like `scheduling: respect CSI attach limits`"
    if len(subject) > MAX_CHARACTERS:
        return f"the subject has {len(subject)} characters; at most {MAX_CHARACTERS} are allowed"
    if subject.endswith("."):
        return "the subject ends with a full stop; leave it out"
    return None


def main() -> int:
    problem = problem_in(Path(sys.argv[1]).read_text("utf-8"))
    if problem is not None:
        print(f"commit message: {problem}", file=sys.stderr)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
