"""Whose token it is, and whether he may look: asked of the API server, which knows both."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct, field

from plimsoll.kube.client.client import Client
from plimsoll.kube.types.core import KubeObject, Part
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Permission

# What a person must be allowed to `get`, as a non-resource URL of RBAC.
PATH = "/plimsoll/dashboard"
PERMISSIONS = (
    Permission("authentication.k8s.io", "tokenreviews", "create"),
    Permission("authorization.k8s.io", "subjectaccessreviews", "create"),
)
# A page asks for a dozen files at once. A right that is taken away is gone after as long.
_REMEMBERED_SECONDS = 30.0
_MOST_REMEMBERED = 256
# Tokens that nobody knows cost the API server two questions each: beyond so many in a second, nobody new is let in.
_MOST_ASKED_IN_A_SECOND = 20


class UserInfo(Part, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class TokenReviewStatus(Part, frozen=True, gc=False):
    authenticated: bool = False
    user: UserInfo = UserInfo()


class TokenReview(KubeObject, frozen=True, gc=False):
    status: TokenReviewStatus = TokenReviewStatus()


class AccessReviewStatus(Part, frozen=True, gc=False):
    allowed: bool = False


class SubjectAccessReview(KubeObject, frozen=True, gc=False):
    status: AccessReviewStatus = AccessReviewStatus()


TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", TokenReview, namespaced=False
)  # fmt: skip
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", SubjectAccessReview, namespaced=False
)


class Verdict(Struct, frozen=True):
    known: bool
    allowed: bool = False
    user: str = ""


class TooManyQuestions(Exception):
    """Too many tokens that nobody has seen before."""


class Reviews:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Verdict]] = OrderedDict()
        self._second = 0
        self._asked = 0

    async def of(self, token: str) -> Verdict:
        """Raises KubeError where the API server does not answer, TooManyQuestions where it is not to be asked again."""
        digest = hashlib.sha256(token.encode()).digest()  # a token is not kept, nor shown in any dump of this table
        now = self._clock.monotonic()
        found = self._known.get(digest)
        if found is not None and found[0] > now:
            return found[1]
        self._count(int(now))
        verdict = await self._ask(token)
        self._known[digest] = (now + _REMEMBERED_SECONDS, verdict)
        self._known.move_to_end(digest)
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return verdict

    def _count(self, second: int) -> None:
        if second != self._second:
            self._second, self._asked = second, 0
        if self._asked >= _MOST_ASKED_IN_A_SECOND:
            raise TooManyQuestions
        self._asked += 1

    async def _ask(self, token: str) -> Verdict:
        review = await self._client.create(TOKEN_REVIEWS, "", {"spec": {"token": token}})
        if not review.status.authenticated:
            return Verdict(known=False)
        user = review.status.user
        access = await self._client.create(
            ACCESS_REVIEWS,
            "",
            {
                "spec": {
                    "user": user.username,
                    "uid": user.uid,
                    "groups": list(user.groups),
                    "extra": dict(user.extra),
                    "nonResourceAttributes": {"path": PATH, "verb": "get"},
                }
            },
        )
        return Verdict(known=True, allowed=access.status.allowed, user=user.username)
