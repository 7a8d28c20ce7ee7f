"""Settings: frozen sections, where each value came from, and the secrets of the environment.

A value is taken from the first of: a flag, an environment variable `CANOPY_<SECTION>_<FIELD>`, the
file `canopy.toml` (or the one `CANOPY_CONFIG` names), the default of the section. There is no
global settings object: sections are passed as arguments.
"""

from canopy_rag.config.loading import DEFAULT_FILE, load, variable
from canopy_rag.config.secrets import Secret, encoder_api_key, llm_api_key, server_api_key
from canopy_rag.config.sections import (
    DEFAULT,
    Config,
    EncoderConfig,
    EvaluateConfig,
    IndexConfig,
    IngestConfig,
    LLMConfig,
    RayConfig,
    RetrievalConfig,
    SelectConfig,
    ServerConfig,
    describe,
    keys,
    sections,
)

__all__ = [
    "DEFAULT",
    "DEFAULT_FILE",
    "Config",
    "EncoderConfig",
    "EvaluateConfig",
    "IndexConfig",
    "IngestConfig",
    "LLMConfig",
    "RayConfig",
    "RetrievalConfig",
    "Secret",
    "SelectConfig",
    "ServerConfig",
    "describe",
    "encoder_api_key",
    "keys",
    "llm_api_key",
    "load",
    "sections",
    "server_api_key",
    "variable",
]
