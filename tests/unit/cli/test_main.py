from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from canopy_rag import __version__
from canopy_rag.cli import main as cli_main
from canopy_rag.cli.main import app
from canopy_rag.core.errors import DataError

CANOPY = [sys.executable, "-c", "from canopy_rag.cli import main; main()"]
COMMANDS = (
    "index",
    "search",
    "ask",
    "explain",
    "compress",
    "info",
    "config",
    "doctor",
    "demo",
    "datasets",
    "diagnose",
    "train",
    "mcp",
    "serve",
    "evaluate",
    "report",
    "upgrade",
    "verify",
)


def test_the_version_is_told(run) -> None:
    done = run("--version")
    assert (done.code, done.out) == (0, f"canopy-rag {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(run, command: str) -> None:
    done = run(command, "--help", columns=120)
    assert done.code == 0
    assert "--json" in done.out
    assert "--quiet" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("search",),
        ("search", "a", "--bogus"),
        ("search", "a", "--k", "many"),
        ("search", "a", "--k", "0"),
        ("search", "a", "--budget", "-1"),
        ("ask", "a", "--select", "some"),
        ("compress", "--query", "a", "--encoder", "minilmm", "a.md"),
        ("index", ".", "--engine", "rai"),
        ("index", ".", "--workers", "0"),
        ("compress", "a.md"),
    ],
)
def test_wrong_usage_ends_with_2_and_prints_nothing_on_stdout(run, arguments) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err


def test_a_failure_is_one_message_without_a_traceback(run) -> None:
    done = run("search", "a", "--index", "nowhere")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


def test_the_notes_of_an_error_are_told_with_it(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **named: object) -> None:
        error = DataError("it broke")
        error.add_note("while reading page 3")
        raise error

    monkeypatch.setattr("canopy_rag.cli.config.load", failing)
    done = run("config")
    assert done.code == 1
    assert done.err == "error: it broke\nwhile reading page 3\n"


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_debugging_shows_the_traceback(run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "environment":
        monkeypatch.setenv("CANOPY_DEBUG", "1")
    flags = ("--debug",) if how == "flag" else ()
    with pytest.raises(DataError, match="nowhere"):
        run("search", "a", "--index", "nowhere", *flags)


def test_a_wrong_setting_in_the_environment_is_wrong_usage(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANOPY_RETRIEVAL_KK", "3")
    done = run("config")
    assert done.code == 2
    assert "CANOPY_RETRIEVAL_K'" in done.err


def test_an_interrupt_ends_with_130_and_says_how_to_go_on(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("canopy_rag.cli.config.load", interrupted)
    done = run("config")
    assert done.code == 130
    assert "run it again" in done.err


def test_a_fault_of_canopy_says_so_and_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(*args: object, **named: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("canopy_rag.cli.config.load", faulty)
    monkeypatch.setattr(sys, "argv", ["canopy", "config"])
    with pytest.raises(SystemExit) as ended:
        cli_main()
    assert ended.value.code == 1
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_a_reader_that_stops_reading_makes_no_noise(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [*CANOPY, "config", "--json"], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        os.close(writing)
        _, err = process.communicate()
    assert err == b""
    assert process.returncode == 1


def test_help_loads_neither_the_store_nor_a_runtime() -> None:
    code = (
        "import sys\nfrom canopy_rag.cli import app\n"
        "try: app(['index', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert "typer" in loaded
    assert loaded.isdisjoint({"lancedb", "pyarrow", "onnxruntime", "numpy", "httpx", "PIL"})


def test_every_command_of_the_interface_is_there() -> None:
    assert {each.callback.__name__ for each in app.registered_commands if each.callback} == set(
        COMMANDS
    )
