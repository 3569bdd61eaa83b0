"""How the process ends, for whoever restarts it."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The numbers are part of the interface: alerts and scripts compare them. Never give one a new meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    STOPPED = 0, "stopped as asked"
    UNEXPECTED_ERROR = 1, "an unexpected error; the log has it"
    BAD_CONFIGURATION = 2, "the configuration or the arguments are wrong; nothing was started"
    LEADERSHIP_LOST = 3, "leadership was lost while work was under way; restart"
    CLUSTER_REFUSED = 4, "at the start no kubeconfig was usable, or the cluster could not be reached or refused us"
    VIEW_TOO_OLD = 5, "nothing was heard from the cluster for longer than kubernetes.exitViewAge; restart"
