"""Access reviews. The only user may do everything, and the responses say so."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api.admission import USER
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.status import bad_request

_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def reviewed(kind: ResourceKind, question: Any) -> Json:
    if not isinstance(question, dict):
        raise bad_request("the body of the request is no object")
    status: Json = {"allowed": True}
    if kind.kind == "SelfSubjectRulesReview":
        status = _EVERYTHING
    elif kind.kind == "SelfSubjectReview":
        status = {"userInfo": USER}
    return {**question, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "status": status}
