"""Exit codes of `plimsoll run`."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The numbers are part of the public interface: alerts and scripts compare them. Never change a number's meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    STOPPED = 0, "stopped on request"
    UNEXPECTED_ERROR = 1, "unexpected error; see the log"
    BAD_CONFIGURATION = 2, "invalid configuration or arguments; nothing was started"
    LEADERSHIP_LOST = 3, "leadership was lost during a reconcile; restart"
    CLUSTER_REFUSED = 4, "no usable kubeconfig, or the cluster was unreachable or refused access at startup"
    VIEW_TOO_OLD = 5, "no data from the cluster for longer than kubernetes.exitViewAge; restart"
