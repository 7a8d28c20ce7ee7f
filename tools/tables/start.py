"""Starting: importing, the command line, the first query of a process."""

from __future__ import annotations

import benchmark_tables


def table() -> str:
    """Return what each program takes from start to end."""
    result = benchmark_tables.read("start")
    lines = [
        [_code(name), f"{took:.3f}", f"{result['worst_s'][name]:.3f}"]
        for name, took in result["s"].items()
    ]
    stages = result["one_process_s"]
    return (
        f"{benchmark_tables.table(['', 'median s', 'worst s'], lines)}\n\n"
        f"In one process, importing and opening an index takes {stages['open']:.2f} s, its first "
        f"search {stages['first']:.2f} s, each further one {stages['later']:.4f} s. "
        f"{result['runs']} fresh interpreters of each, in turns; "
        f"{benchmark_tables.machine(result)}."
    )


def _code(name: str) -> str:
    is_code = name.startswith(("import canopy", "canopy "))
    program, comma, rest = name.partition(",")
    return f"`{program}`{comma}{rest}" if is_code else name
