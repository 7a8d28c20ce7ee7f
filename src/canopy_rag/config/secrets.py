"""Keys, which come from the environment and are shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping

SECRETS = frozenset({"CANOPY_ENCODER_API_KEY", "CANOPY_LLM_API_KEY", "CANOPY_SERVER_API_KEY"})
"""Our variables that hold keys; they are no settings."""


class Secret:
    """A key that is not shown by `repr`, `str` or a traceback's values.

    >>> Secret("sk-1234")
    Secret('****')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, for the request that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('****')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def llm_api_key(env: Mapping[str, str] | None = None) -> Secret | None:
    """Return the chat server's key: `CANOPY_LLM_API_KEY`, else `OPENAI_API_KEY`; empty is unset."""
    return _secret(env, "CANOPY_LLM_API_KEY", "OPENAI_API_KEY")


def encoder_api_key(env: Mapping[str, str] | None = None) -> Secret | None:
    """Return the key of the encoder's server: `CANOPY_ENCODER_API_KEY`, else `OPENAI_API_KEY`."""
    return _secret(env, "CANOPY_ENCODER_API_KEY", "OPENAI_API_KEY")


def server_api_key(
    env: Mapping[str, str] | None = None, *, flag: str | None = None
) -> Secret | None:
    """Return the key that our server asks for: the flag, else `CANOPY_SERVER_API_KEY`."""
    return Secret(flag) if flag else _secret(env, "CANOPY_SERVER_API_KEY")


def _secret(env: Mapping[str, str] | None, *names: str) -> Secret | None:
    env = os.environ if env is None else env
    found = next((env[name].strip() for name in names if env.get(name, "").strip()), None)
    return None if found is None else Secret(found)
