"""`python -m tests.embedded_cluster.print_history SEED EVENTS`: every revision of a random day, one line each."""

from __future__ import annotations

import sys

from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.clocks import run_virtually
from plimsoll.runtime.logging import set_up_logging
from tests.embedded_cluster.histories import Day


def _tell(change: ObjectChange) -> None:
    line = f"{change.revision} {change.type} {'/'.join(change.collection)} ".encode() + change.encoded() + b"\n"
    sys.stdout.buffer.write(line)


if __name__ == "__main__":
    set_up_logging("error", "console")
    run_virtually(Day(int(sys.argv[1]), record_event=_tell).live(events=int(sys.argv[2])))
