"""How three ways to choose among chat servers use what the servers can do."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def table() -> str:
    """Return one line for each kind of servers and way to choose."""
    result = benchmark_tables.read("replicas")
    lines = [
        [
            name if policy == "canopy" else "",
            policy,
            _best(own["of_ideal"], policies),
            " / ".join(f"{100 * each:.0f}" for each in own["share"]),
            f"{own['asked_per_reply']:.2f}",
            f"{own['p95_s'] / result['unit_s']:.1f}",
            f"{result['loopback'][name][policy]['of_ideal']:.2f}",
            f"{own['errors']} / {result['loopback'][name][policy]['errors']}",
        ]
        for name, policies in result["virtual"].items()
        for policy, own in policies.items()
    ]
    head = ["servers", "chosen by", "of ideal", "share, %", "asked per reply", "p95, latencies"]
    told = (
        f"{result['in_flight']} requests in flight, {result['places']} places at each server, a "
        f"fast server's latency is {result['unit_s']:g} s, time-out {result['timeout_s']:g} s. "
        f"{result['virtual_seconds'] / 60:.0f} minutes of virtual time; on loopback "
        f"{result['seconds']:g} s each, the median of {result['repeats']}; "
        f"{benchmark_tables.machine(result)}."
    )
    head += ["on loopback, of ideal", "errors seen, virtual / loopback"]
    return f"{told}\n\n{benchmark_tables.table(head, lines)}"


def _best(value: float, policies: dict[str, dict[str, Any]]) -> str:
    text = f"{value:.2f}"
    return f"**{text}**" if value == max(each["of_ideal"] for each in policies.values()) else text
