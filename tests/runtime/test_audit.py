"""The audit trail never blocks the loop, keeps its order, and is bounded; `audit.onFailure` decides what a failure costs."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll.runtime import audit
from plimsoll.runtime.audit import AuditRecord, AuditTrail


def record(number: int, detail: str = "") -> AuditRecord:
    return AuditRecord(
        time=datetime(2026, 1, 1, tzinfo=UTC), operator="here", term="7", controller="c", key=f"k{number}", action="Patch",
        target="t", uid="u", reason="R", why="because", result="done", detail=detail,
    )  # fmt: skip


def test_records_are_written_in_order_and_carry_the_term_as_epoch(tmp_path: Path):
    trail = AuditTrail(str(tmp_path / "audit"))
    for number in range(500):
        trail.write(record(number))
    trail.close()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [line["key"] for line in lines] == [f"k{number}" for number in range(500)]
    assert lines[0]["epoch"] == "7"


@pytest.mark.parametrize("on_failure", ["drop", "stop"])
def test_a_pipe_that_nothing_reads_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_failure: audit.OnFailure
):
    monkeypatch.setattr(audit, "MOST_RECORDS", 50)
    monkeypatch.setattr(audit, "CLOSE_SECONDS", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    counted: Counter[str] = Counter()
    trail = AuditTrail(str(pipe), on_failure=on_failure, count=lambda result: counted.update([result]))
    started = time.monotonic()
    for number in range(300):
        trail.write(record(number, "x" * 4000))
    assert time.monotonic() - started < 2
    assert counted["dropped"] >= 200
    assert trail.accepting == (on_failure == "drop")

    def read() -> None:
        os.set_blocking(reader, True)
        while os.read(reader, 65536):
            pass

    threading.Thread(target=read, daemon=True).start()
    assert trail.flush(10)
    assert trail.accepting
    trail.close()


@pytest.mark.parametrize("on_failure", ["drop", "stop"])
def test_a_full_disk_breaks_nothing(monkeypatch: pytest.MonkeyPatch, on_failure: audit.OnFailure):
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(audit, "CLOSE_SECONDS", 0.5)
    counted: Counter[str] = Counter()
    trail = AuditTrail("/dev/full", on_failure=on_failure, count=lambda result: counted.update([result]))
    trail.write(record(1))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not (counted["dropped"] if on_failure == "drop" else not trail.accepting):
        time.sleep(0.01)
    assert trail.accepting == (on_failure == "drop")
    assert counted["dropped"] == (1 if on_failure == "drop" else 0), (
        "with stop, the record is kept until it can be written"
    )
    trail.close()


def test_nothing_is_started_where_nothing_is_written():
    before = threading.active_count()
    seen: list[AuditRecord] = []
    trail = AuditTrail("", seen.append)
    trail.write(record(1))
    assert threading.active_count() == before
    assert [one.key for one in seen] == ["k1"]
    trail.close()
