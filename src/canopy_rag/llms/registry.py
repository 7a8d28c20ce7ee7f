"""Names of chat models, as `--llm` takes them."""

from __future__ import annotations

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.protocols import LLM
from canopy_rag.llms.counting import AS_TOLD, Counting

NAMES = ("local", "none")
_URL = "http://HOST:PORT/v1"


def llm(  # noqa: PLR0913 (as the settings of a chat model)
    name: str | None,
    *,
    model: str | None = None,
    api_key: str | None = None,
    vision: bool | None = None,
    timeout_s: float = 120.0,
    max_retries: int = 3,
    max_in_flight: int = 32,
    max_per_server: int | None = None,
    max_waiting: int | None = None,
    counting: Counting = AS_TOLD,
) -> LLM | None:
    """Return the chat model of a name; nothing is loaded or asked yet.

    Args:
        name: Base URL of an OpenAI-compatible server, several joined by commas, `local`, or
            `none`; None and an empty name count as `none`.
        model: Name of the server's model; for `local` a GGUF file.
        api_key: Key of the server, from `CANOPY_LLM_API_KEY` or `OPENAI_API_KEY`.
        vision: Whether the model sees pictures; None for what the server tells.
        timeout_s: Seconds that one attempt may take, for a server.
        max_retries: Attempts after the first, for a server.
        max_in_flight: Most requests at once, for a server.
        max_per_server: Most at once at each of several servers; None: any number.
        max_waiting: Most that wait for their turn, for a server; None: any number.
        counting: How tokens are counted, and what they cost, for a server.

    Returns:
        The model, or None for `none`: answers then come from the extractive reader.

    Raises:
        UnknownNameError: If the name is none of these.
        ConfigError: If a URL is incomplete, the key cannot be sent, or the tokenizer is not there.
        MissingDependencyError: If what a server or `local` needs is not installed.
    """
    wanted = (name or "").strip() or "none"
    if wanted == "none":
        return None
    if wanted == "local":
        from canopy_rag.llms.llama_cpp import local_llm

        return local_llm(model)
    if "://" in wanted:
        from canopy_rag.llms.openai_chat import OpenAIChat

        return OpenAIChat(
            wanted,
            model,
            api_key,
            timeout_s,
            max_retries,
            max_in_flight=max_in_flight,
            max_per_server=max_per_server,
            max_waiting=max_waiting,
            vision=vision,
            counting=counting,
        )
    if ":" in wanted or "/" in wanted:
        raise ConfigError(f"llm {name!r} is no complete URL. Write it like {_URL}")
    raise UnknownNameError("llm", wanted, [*NAMES, _URL])
