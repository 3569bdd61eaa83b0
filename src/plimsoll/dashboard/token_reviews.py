"""Reviews bearer tokens with the API server: TokenReview, then SubjectAccessReview."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct, field

from plimsoll.kube.client.client import Client
from plimsoll.kube.types.meta import KubeObject, Part
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Permission

# The non-resource URL that a user must be allowed to `get`.
PATH = "/plimsoll/dashboard"
PERMISSIONS = (
    Permission("authentication.k8s.io", "tokenreviews", "create"),
    Permission("authorization.k8s.io", "subjectaccessreviews", "create"),
)
# Reviews are cached for this long, because a page requests dozens of files. A revoked permission ends after the same time.
_REMEMBERED_SECONDS = 30.0
_MOST_REMEMBERED = 256
# Every unknown token costs the API server two requests; more unknown tokens per second are refused.
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


class TokenVerdict(Struct, frozen=True):
    known: bool
    allowed: bool = False
    user: str = ""


class TooManyReviews(Exception):
    """Too many unknown tokens within a second."""


class TokenReviewer:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, TokenVerdict]] = OrderedDict()
        self._second = 0
        self._asked = 0

    async def of(self, token: str) -> TokenVerdict:
        """Review a token. Raises KubeError if the API server fails, TooManyReviews above the rate limit."""
        digest = hashlib.sha256(token.encode()).digest()  # the token itself is not kept
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
            raise TooManyReviews
        self._asked += 1

    async def _ask(self, token: str) -> TokenVerdict:
        review = await self._client.create(TOKEN_REVIEWS, "", {"spec": {"token": token}})
        if not review.status.authenticated:
            return TokenVerdict(known=False)
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
        return TokenVerdict(known=True, allowed=access.status.allowed, user=user.username)
