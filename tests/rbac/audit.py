"""What the API server itself wrote down of every request that an installation's account has made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT = "plimsoll"
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    # A watch is told of when it starts: it may never end.
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


@dataclass(frozen=True)
class Asked:
    """One request, and what the authorizer said to it."""

    home: str
    group: str
    resource: str
    subresource: str
    verb: str
    namespace: str
    name: str
    allowed: bool

    def __str__(self) -> str:
        kind = "/".join(part for part in (self.resource, self.subresource) if part)
        return f"{self.verb} {kind}{'.' if self.group else ''}{self.group} {self.namespace}/{self.name}"


class AuditLogs:
    """Of every API server of the run, each read once and no line twice."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}

    def flags(self) -> list[str]:
        """For another API server."""
        log, policy = self._directory / f"audit-{len(self._read)}.jsonl", self._directory / "policy.json"
        policy.write_text(json.dumps(_POLICY))
        self._read[log] = 0
        return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]

    def new(self) -> Iterator[Asked]:
        for log, start in self._read.items():
            if not log.exists():
                continue
            with log.open("rb") as lines:
                lines.seek(start)
                whole, _, _ = lines.read().rpartition(b"\n")
            self._read[log] = start + len(whole)
            yield from (asked for line in whole.splitlines() if line and (asked := parse(json.loads(line))))


def parse(record: dict[str, Any]) -> Asked | None:
    """None: of another account, or of no object, such as /version."""
    user: Sequence[str] = record["user"]["username"].split(":")
    about = record.get("objectRef")
    if about is None or user[:2] != ["system", "serviceaccount"] or user[3] != ACCOUNT:
        return None
    return Asked(
        home=user[2],
        group=about.get("apiGroup", ""),
        resource=about["resource"],
        subresource=about.get("subresource", ""),
        verb=record["verb"],
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        allowed=record.get("annotations", {}).get("authorization.k8s.io/decision") == "allow",
    )
