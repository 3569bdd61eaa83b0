"""Values that are fine alone and wrong together."""

from __future__ import annotations

from pathlib import Path

from tests.config.reading import load_text, problems_in


def test_a_lease_outlasts_its_renewal_and_that_its_retries(tmp_path: Path) -> None:
    found = problems_in(
        tmp_path,
        "operator:\n  leaderElection:\n    leaseDuration: 5s\n",
        {"PLIMSOLL_OPERATOR_LEADER_ELECTION_RETRY_PERIOD": "10s"},
    )
    lease = "operator.leaderElection"
    assert found == [
        (
            f"plimsoll.yaml:3:20: {lease}.leaseDuration: 5s is not longer than {lease}.renewDeadline (10s, default): "
            "a leader must stop before another may start"
        ),
        (
            f"PLIMSOLL_OPERATOR_LEADER_ELECTION_RETRY_PERIOD: {lease}.retryPeriod: 10s is not shorter than "
            f"{lease}.renewDeadline (10s, default): a leader must have time for more than one attempt"
        ),
    ]


def test_views_become_unready_before_the_process_gives_up(tmp_path: Path) -> None:
    (found,) = problems_in(tmp_path, "kubernetes: {exitViewAge: 5m}")
    assert "kubernetes.exitViewAge: 5m is not longer than kubernetes.maxViewAge (5m, default)" in found
    (found,) = problems_in(tmp_path, "kubernetes: {maxViewAge: 1m}")
    assert "kubernetes.maxViewAge: 1m is not longer than kubernetes.watchIdleTimeout (2m30s, default)" in found


def test_a_value_that_could_not_be_read_contradicts_nothing(tmp_path: Path) -> None:
    found = problems_in(tmp_path, "operator: {leaderElection: {leaseDuration: 5s, renewDeadline: 3}}")
    assert len(found) == 1
    assert "has no unit" in found[0]


def test_short_times_are_fine_together(tmp_path: Path) -> None:
    text = "operator: {leaderElection: {leaseDuration: 2s, renewDeadline: 1s, retryPeriod: 100ms}}"
    assert load_text(tmp_path, text).config.operator.leader_election.lease_duration.total_seconds() == 2
