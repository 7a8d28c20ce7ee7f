from __future__ import annotations

from pathlib import Path

import pytest

from canopy_rag.cli import checks


def test_config_tells_each_value_and_its_origin(run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("canopy.toml").write_text("[retrieval]\nk = 5\n", encoding="utf-8")
    monkeypatch.setenv("CANOPY_SELECT_BUDGET", "900")
    settings = {each["key"]: each for each in run("config", "--json").json["settings"]}
    assert (settings["retrieval.k"]["value"], settings["retrieval.k"]["origin"]) == (
        5,
        "canopy.toml",
    )
    assert settings["select.budget"]["origin"] == "environment CANOPY_SELECT_BUDGET"
    assert settings["select.cap"]["origin"] == "default"


def test_config_never_shows_a_key(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_LLM_API_KEY", "sk-secret")
    monkeypatch.setenv("CANOPY_LLM_NAME", "http://me:hush@host/v1")
    for done in (run("config", "--json"), run("config")):
        assert done.code == 0
        assert "****" in done.out
        assert "sk-secret" not in done.out + done.err
        assert "hush" not in done.out + done.err


def test_doctor_finds_this_installation_well(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_ENCODER_NAME", "hashing")
    report = run("doctor", "--json").json
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert report["ok"] is True
    assert states["python"] == states["canopy-rag"] == states["encoder"] == "ok"
    assert not Path(".canopy").exists()
    assert "All well." in run("doctor").out


def test_doctor_tells_what_a_missing_extra_would_add(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_ENCODER_NAME", "hashing")
    known = checks._is_installed
    monkeypatch.setattr(checks, "_is_installed", lambda name: name != "av" and known(name))
    done = run("doctor", columns=200)
    assert done.code == 0
    assert "pip install 'canopy-rag[video]'" in done.out


def test_doctor_fails_when_the_base_is_broken(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_ENCODER_NAME", "minilm")
    monkeypatch.setenv("CANOPY_ENCODER_WEIGHTS", "nowhere")
    done = run("doctor", "--json")
    assert done.code == 1
    (broken,) = [check for check in done.json["checks"] if check["state"] == "broken"]
    assert broken["name"] == "encoder"
    assert "nowhere" in broken["detail"]


def test_the_requirements_of_each_extra_are_read_from_the_package() -> None:
    asked = checks.requirements()
    assert "numpy" in asked[None]
    assert {"av", "pysubs2"} <= set(asked["video"])
    assert set(checks.FEATURES) <= set(asked)
