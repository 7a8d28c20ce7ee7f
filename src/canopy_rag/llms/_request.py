"""Requests as OpenAI's chat completions, and what refusals teach about a server."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import LLMError
from canopy_rag.core.protocols import ChatRequest, MediaPart, Message
from canopy_rag.llms._errors import AttemptError

NO_SCHEMA = "no_schema"
NEW_LIMIT = "new_limit"
NO_TEMPERATURE = "no_temperature"
NO_STREAM_USAGE = "no_stream_usage"
TOLD = {
    NO_SCHEMA: "refuses response_format; replies are parsed without it",
    NEW_LIMIT: "takes max_completion_tokens in place of max_tokens",
    NO_TEMPERATURE: "refuses temperature 0; replies may differ from run to run",
    NO_STREAM_USAGE: "refuses stream_options; tokens of streamed replies are estimated",
}
"""Ways in which a server differs, as a log tells them."""

_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


def payload(
    request: ChatRequest, model: str, quirks: frozenset[str], *, stream: bool = False
) -> dict[str, Any]:
    """Return the body of a request.

    Half a surrogate pair, as names of files may hold, cannot be sent and becomes `?`.
    """
    built: dict[str, Any] = {
        "model": sendable(model),
        "messages": [message_of(message) for message in request.messages],
        "max_completion_tokens" if NEW_LIMIT in quirks else "max_tokens": request.max_tokens,
    }
    if NO_TEMPERATURE not in quirks:
        built["temperature"] = 0
    if stream and NO_STREAM_USAGE not in quirks:
        built["stream_options"] = {"include_usage": True}
    if request.schema is not None and NO_SCHEMA not in quirks:
        built["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": request.schema_name or "reply",
                "strict": True,
                "schema": dict(request.schema),
            },
        }
    return built


def sendable(text: str) -> str:
    """Return `text` with `?` for what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def message_of(message: Message) -> dict[str, Any]:
    """Return one message; a plain string if there is no picture, as some servers read no other."""
    if all(isinstance(part, str) for part in message.content):
        return {"role": message.role, "content": sendable("\n".join(map(str, message.content)))}
    return {"role": message.role, "content": [_part(part) for part in message.content]}


def _part(part: str | MediaPart) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": sendable(part)}
    return {"type": "image_url", "image_url": {"url": data_uri(part.media)}}


def data_uri(media: str) -> str:
    """Return a picture as a `data:` URI; formats that servers do not read become PNG.

    Raises:
        LLMError: If the file cannot be read as a picture.
    """
    if media.startswith("data:"):
        return media
    try:
        content = Path(media).read_bytes()
    except OSError as error:
        raise LLMError(f"picture {media!r} cannot be read: {error.strerror}") from error
    kind = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        kind, content = "image/png", _as_png(media, content)
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _as_png(media: str, content: bytes) -> bytes:
    from PIL import Image, UnidentifiedImageError

    written = io.BytesIO()
    try:
        # Named formats only: Pillow also knows some that start other programs, such as EPS.
        with Image.open(io.BytesIO(content), formats=("TIFF", "BMP")) as picture:
            picture.convert("RGB").save(written, "PNG")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise LLMError(
            f"picture {media!r} cannot be read: {error}. Send frames of videos as data URIs"
        ) from error
    return written.getvalue()


def pictures(request: ChatRequest) -> int:
    """Return how many pictures a request holds."""
    return sum(isinstance(part, MediaPart) for each in request.messages for part in each.content)


def learnt(
    quirks: frozenset[str], request: ChatRequest, error: AttemptError, *, stream: bool
) -> frozenset[str]:
    """Return what a refusal teaches about a server: `quirks`, with at most one more.

    A refusal that names no other field is put down to the schema, if one was sent: servers word it
    in too many ways. It is believed only once the same prompt passes without it.
    """
    if error.status not in {400, 422}:
        return quirks
    message = str(error)
    named = {
        NEW_LIMIT: "max_completion_tokens" in message,
        NO_TEMPERATURE: "temperature" in message and "upport" in message,
        NO_STREAM_USAGE: stream and ("stream_options" in message or "include_usage" in message),
        NO_SCHEMA: request.schema is not None,
    }
    fits = [quirk for quirk, fit in named.items() if fit and quirk not in quirks]
    return quirks | set(fits[:1])
