"""Configuration from `PLIMSOLL_*` variables. One that nobody reads is an error: it is nearly always a slip."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.config.forms import nearest, shown
from plimsoll.config.settings import BY_VARIABLE, VARIABLE_PREFIX
from plimsoll.config.sources import Reading

# Where the tests find the binaries of a real control plane; the operator has no use for it.
_NOT_OURS = frozenset({"PLIMSOLL_CONTROLPLANE"})


def read_environment(environ: Mapping[str, str]) -> Reading:
    reading = Reading()
    for variable, text in sorted(environ.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable in _NOT_OURS or _service_link(variable, environ):
            continue
        if setting := BY_VARIABLE.get(variable):
            reading.take(setting, text, variable)
        else:
            guess = nearest(variable, BY_VARIABLE)
            hint = f"did you mean {guess}?" if guess else "`plimsoll config show` lists the valid keys"
            reading.refuse(variable, "", f"unknown variable (value {shown(text)}); {hint}")
    return reading


def _service_link(variable: str, environ: Mapping[str, str]) -> bool:
    """Whether the kubelet put the variable there, because the namespace has a Service named plimsoll-something.

    Each such Service gives every pod <NAME>_SERVICE_HOST, <NAME>_SERVICE_PORT…, <NAME>_PORT and <NAME>_PORT_…; a Service named
    plimsoll-web would otherwise set `web.port` to tcp://10.0.0.1:8080.
    """
    words = variable.split("_")
    for end in range(1, len(words)):
        service = "_".join(words[:end])
        if f"{service}_SERVICE_HOST" not in environ:
            continue
        rest = variable[len(service) + 1 :]
        if rest == "SERVICE_HOST" or rest.startswith(("SERVICE_PORT", "PORT_")):
            return True
        if rest == "PORT":
            return "://" in environ[variable]  # what a person wrote there on purpose wins over the link
    return False
