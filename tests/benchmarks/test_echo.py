"""The echo workload: every peer answers every request, and what is missing or broken is a line that says so."""

from __future__ import annotations

import pytest

from bursar_benchmarks import echo
from bursar_benchmarks.harness import Sample, installed

PRESENT = [peer for peer in echo.PEERS if peer == "protocol" or installed(peer)]


@pytest.mark.parametrize("peer", PRESENT)
@pytest.mark.parametrize("connections", [1, 10])
def test_a_server_answers_every_request(peer: str, connections: int) -> None:
    taken = echo.sample_in_child(peer, connections, 200)
    assert taken.error is None
    assert taken.cost > 0
    assert taken.stages["cpu"] > 0


def test_a_server_that_fails_says_so() -> None:
    taken = echo.sample_in_child("nobody", 1, 10)
    assert taken.error is not None
    assert "KeyError: 'nobody'" in taken.error


def test_peers_and_connections_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def take(peer: str, connections: int, requests: int) -> Sample:
        asked.append((peer, connections))
        return Sample(10.0, {"cpu": 5.0}) if peer != "protocol" else Sample(0.0, error="broken")

    monkeypatch.setattr(echo, "sample_in_child", take)
    monkeypatch.setattr(echo, "installed", lambda peer: peer != "uvloop")
    rows = echo.measure(requests=100, repeats=2)
    first = [(peer, n) for n in echo.CONNECTIONS for peer in ("bursar", "asyncio", "protocol")]
    assert asked == first + [entry for entry in first if entry[0] != "protocol"]
    assert {row.peer: row.status for row in rows} == {
        "bursar": "ok",
        "asyncio": "ok",
        "uvloop": "absent",
        "protocol": "failed",
    }
    lines = echo.render(rows).splitlines()
    assert lines[2].split() == ["echo,", "1", "connection", "bursar", "100,000", "(100,000)", "10.0", "5.00", "x1.00"]
    assert any(line.endswith("broken") for line in lines)
