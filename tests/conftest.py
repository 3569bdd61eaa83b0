"""What all tests share: the real control plane, and hypothesis settled so that a failure in CI can be repeated anywhere."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.rbac.everywhere", "tests.realcluster", "tests.helm", "tests.spreading", "tests.second_try"]

settings.register_profile(
    "plimsoll",
    deadline=None,  # the machines are shared and noisy: a slow example is no failure
    derandomize=os.environ.get("CI", "").lower() == "true",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.load_profile("plimsoll")

# A shell that starts us in the background has us ignore it, and so would whatever a test starts in order to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
