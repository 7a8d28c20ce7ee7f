"""The sections: every setting, its default, and where the default comes from.

The text under a field is its documentation: `docs/configuration.md` is made from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from canopy_rag.config.values import (
    Above,
    Least,
    NotEmpty,
    check_section,
    describe_hint,
    options_of,
)

DEFAULT = "default"
"""Origin of a value that nobody set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalConfig:
    """How each round retrieves."""

    k: Annotated[int, Least(1)] = 10
    """Items retrieved per round, and per corpus when routed. Paper: 10 (P2)."""
    rounds: Annotated[int, Least(1)] = 3
    """Most retrieval rounds, the first included. Paper: 3 (P2)."""
    critic: Literal["auto", "llm", "rules", "none"] = "auto"
    """Who asks for what is missing between rounds. `auto`: the chat model, unless it is `local`,
    which is too small to judge; without one a question has one round. Paper: the reader's model
    (P18)."""
    route: Literal["off", "llm", "soft"] = "off"
    """`llm`: the chat model chooses the modalities of every query (P8). `soft`: every modality gets
    `min_share` places, without a model. Ours: off; routing cost 12 to 13 F1 on TAT-QA (D6)."""
    none: Literal["search-all", "answer"] = "search-all"
    """What the router's `none` means: search everything, or answer without evidence as UniversalRAG
    does (D6)."""
    min_share: Annotated[int, Least(0)] = 1
    """Places that soft routing keeps for each modality."""
    aggregate: bool = True
    """Ask the chat model once whether a question needs whole tables (P6)."""
    deadline_s: Annotated[float, Above(0)] | None = None
    """Longest time for the rounds of a question, in seconds; then what was found is read. Unset:
    none."""
    hybrid: bool = False
    """Rank by words as well as by vectors. Paper: vectors alone (P1)."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectConfig:
    """What of the retrieved items is shown."""

    select: Literal["auto", "paper", "set"] = "auto"
    """`set`: what stands out among all retrieved items; an item may show nothing. `paper`: each
    item decides for itself (P3). `auto`: `set` over what an index retrieves, where it keeps more
    gold in half the tokens (D11; docs/diagnosis.md); `paper` over documents that are handed over,
    each of which then shows something."""
    budget: Annotated[int, Least(1)] | None = None
    """Most evidence tokens; unset: what the reader's context leaves, at most 16,000 (D13)."""
    cap: Literal["margin", "tail"] = "margin"
    """What goes first when over budget: the least similar fragments (`margin`, D8 as measured), or
    the `tail`, latest retrieved first, which is the paper's rule (P9)."""
    min_tokens: Annotated[int, Least(0)] = 32
    """Evidence up to this size is shown whole. Ours: shorter cannot be worth cutting (D13). Paper:
    0, always refined."""
    when: Literal["always", "needed"] = "always"
    """`needed`: refine only what does not fit the budget whole (D9). Paper: `always`."""
    repeat: Literal["keep", "union"] = "keep"
    """A later round finds an item again: `keep` its regions (P5), or add the new ones (D7)."""

    def __post_init__(self) -> None:
        check_section(self)

    def over(self, automatic: Literal["paper", "set"]) -> Literal["paper", "set"]:
        """Return the scope of selection.

        Args:
            automatic: What `auto` means here.
        """
        return automatic if self.select == "auto" else self.select


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """Which model turns queries and nodes into vectors."""

    name: Annotated[str, NotEmpty()] = "minilm"
    """Encoder name, `+<adapter folder>` for a node adapter. Paper: Qwen3-VL-Embedding-2B (P1);
    ours runs on a CPU without a download."""
    mode: Literal["late", "node"] | None = None
    """`late`: one pass per item, leaf vectors pooled from it. `node`: one pass per node (P1).
    Unset: as the index has it, else `late` for `minilm` and `node` for the others."""
    threads: Annotated[int, Least(1)] | None = None
    """Most forward passes of `minilm` side by side, on one thread each; a query takes one. Unset:
    as many as there are cores. Ours: side by side passes go faster where cores are free; threads
    that share out one pass only cost (docs/speed.md)."""
    backend: Literal["onnxruntime", "openvino"] = "onnxruntime"
    """What runs `minilm`. `openvino` (extra `openvino`) computes in bfloat16 where the CPU has it:
    faster, and nearly always the same decisions (docs/speed.md). An index made with one can be
    searched with the other."""
    weights: str | None = None
    """Folder with the model's files; unset: those the package carries."""
    instruction: str | None = None
    """What queries are searched for, told to the model before each; unset: the model's own. The
    paper's is not known."""
    form: Literal["auto", "text", "chat"] = "auto"
    """How an `http:` encoder is asked. `text`: OpenAI's embeddings of strings. `chat`: vLLM's
    messages, pictures included. `auto`: `chat` for models named like Qwen3-VL-Embedding."""
    max_tokens: Annotated[int, Least(16)] | None = None
    """Texts are read up to about here; unset: what the model is known to take."""
    max_in_flight: Annotated[int, Least(1)] = 8
    """Requests to an `http:` encoder at the same time. Ours."""
    dim: Annotated[int, Least(1)] | None = None
    """Dimensions kept of each vector, for models trained for it (Matryoshka); unset: all."""
    device: Annotated[str, NotEmpty()] = "auto"
    """Where `qwen3-vl` and `hf:` compute: `cpu`, `cuda`, `cuda:1`, `mps`; `auto`: the first GPU,
    else the CPU."""
    device_map: str | None = None
    """Spreads a model over several GPUs: `auto`, or another of accelerate's maps."""
    dtype: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    """Number format there; `auto`: bf16 on a GPU that has it, fp16 on another, fp32 on a CPU."""
    attention: str | None = None
    """Attention there, such as `sdpa` or `flash_attention_2`; unset: what the library takes."""
    batch_tokens: Annotated[int, Least(1)] | None = None
    """Most tokens of one forward pass of `qwen3-vl`, padding included; a longer input goes alone.
    Lower it when memory runs out. Unset: 16,384 on a GPU, 2,048 on a CPU; in training 16,384.
    Ours."""
    min_picture_px: Annotated[int, Least(1024)] | None = None
    """Pictures of fewer pixels are enlarged for `qwen3-vl`, whose visual tokens are 32 x 32 pixels.
    Unset: 4,096. This and the four below are part of what an index holds; their values when unset
    are those of the model's own wrapper."""
    max_picture_px: Annotated[int, Least(1024)] | None = None
    """Pictures of more pixels are reduced for `qwen3-vl`. Unset: 1,843,200, 1,800 visual tokens."""
    max_frame_px: Annotated[int, Least(1024)] | None = None
    """Most pixels of a video's frame for `qwen3-vl`. Unset: 786,432."""
    max_video_px: Annotated[int, Least(1024)] | None = None
    """Most pixels of all frames of a node for `qwen3-vl`; its frames share them. Unset: 7,864,320,
    3,840 visual tokens, since frames are read in twos."""
    max_frames: Annotated[int, Least(1)] | None = None
    """Most frames of a node for `qwen3-vl`; of more, this many, evenly spread. Unset: 64."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMConfig:
    """Which chat model reads and judges. Its key comes from the environment alone."""

    name: Annotated[str, NotEmpty()] = "none"
    """Base URL of an OpenAI-compatible server (commas between replicas), `local`, or `none` for
    the extractive reader. Ours: works without a server."""
    model: str | None = None
    """Model to ask the server for; unset: the first it lists."""
    window: Annotated[int, Least(256)] | None = None
    """Most tokens of a whole prompt with its answer; unset: what the model's server tells. Paper:
    16k (P9)."""
    max_answer: Annotated[int, Least(1)] = 512
    """Longest answer, in tokens. Ours."""
    timeout_s: Annotated[float, Above(0)] = 120.0
    """Longest wait for one reply, in seconds. Ours."""
    max_retries: Annotated[int, Least(0)] = 2
    """Further tries after a failure that may pass. Ours."""
    max_in_flight: Annotated[int, Least(1)] = 32
    """Requests at the same time. Paper: 32 (P17)."""
    max_per_server: Annotated[int, Least(1)] | None = None
    """Requests at the same time at each of several servers; unset: any number. Ours."""
    max_waiting: Annotated[int, Least(0)] | None = None
    """Requests that wait for their turn; more end with an error at once, which `canopy serve`
    passes on as 503. Unset: any number; `server.max_answers` bounds them too. Ours."""
    vision: bool = False
    """Whether the model takes pictures. Ours: only you know."""
    tokenizer: str | None = None
    """The model's `tokenizer.json`, or its folder, or `tiktoken:NAME`, for exact counts; unset: the
    server counts if it can (vLLM, SGLang, llama.cpp), otherwise counts are estimated."""
    pictures: Literal["qwen3-vl", "qwen2-vl", "internvl"] | None = None
    """How the model cuts pictures into tokens; unset: as the server counts (vLLM), or by the
    model's name."""
    price_in: Annotated[float, Least(0)] | None = None
    """What a million tokens of prompt cost, in any currency, for the cost of an answer."""
    price_out: Annotated[float, Least(0)] | None = None
    """What a million tokens of replies cost."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """How files become items; the fields of `ingest.options` but for the sentence splitter."""

    target_chars: Annotated[int, Least(1)] = 1200
    """Text items grow to about this many characters, then end at the next structural border.
    Ours: a 256-token encoder sees all of it."""
    max_rows: Annotated[int, Least(1)] = 200
    """Most rows of a table item; a longer table becomes several with the same header. Ours."""
    branching: Annotated[int, Least(2)] = 2
    """Most children of a node. 2: halving, which needs no parameter (D1)."""
    video_item_s: Annotated[float, Above(0)] = 600.0
    """Longest stretch of a video in one item, in seconds (D1)."""
    segment_s: Annotated[float, Above(0)] = 10.0
    """Length of a video segment where no scene is found, in seconds (D1)."""
    max_frames: Annotated[int, Least(1)] = 8
    """Most frames of a segment (D1)."""
    ocr: Literal["auto", "on", "off"] = "auto"
    """Read text in images: `auto` when the `ocr` extra is installed."""
    max_image_px: Annotated[int, Least(1)] = 100_000_000
    """Larger images are described by their file alone and never decoded. Ours."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexConfig:
    """Where the index is, and what reading a file may take."""

    path: Annotated[str, NotEmpty()] = ".canopy"
    """Folder of the index, relative to the working directory, or its address on object storage:
    `s3://bucket/path`, `gs://bucket/path`, `az://container/path`. `CANOPY_INDEX` is short for
    it."""
    storage_options: str | None = None
    """How to reach object storage, `name=value` with commas between, such as
    `aws_endpoint=https://minio.example:9000,aws_region=eu-west-1`. Keys come from the environment
    alone, as other programs take them (`AWS_ACCESS_KEY_ID` and the like)."""
    refresh_s: Annotated[float, Least(0)] = 5.0
    """How old what a search of an index on object storage sees may be, in seconds; 0: ask for new
    commits at every search. Ours."""
    vectors: Literal["int4", "int8", "float16"] | None = None
    """How a new index stores the vectors of nodes. Ours: `int4`, with which vectors take about 3.3
    times the text's bytes and nothing measurable is lost (docs/speed.md). An index that is there
    keeps its own; adding files to one that has others than are set here is refused."""
    isolate: bool = True
    """Read files in processes of their own: one that crashes its parser, or takes more than the two
    limits below, then fails alone and stops nothing. Off: in the process that encodes, unless there
    are several workers. Ours."""
    file_timeout_s: Annotated[float, Above(0)] = 120.0
    """Longest time that a file's parser may work without giving an item, in seconds; a second more
    for each megabyte of the file. Ours."""
    file_memory_mb: Annotated[int, Least(256)] = 4096
    """Most memory of a process that reads files, in megabytes; watched on Linux. Ours."""

    def __post_init__(self) -> None:
        check_section(self)
        self.options()

    def options(self) -> dict[str, str]:
        """Return the storage options by name.

        Raises:
            ConfigError: If one is no `name=value`, or holds a key.
        """
        return options_of("index.storage_options", self.storage_options or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConfig:
    """Where `canopy index --engine ray` works, and what each of its workers takes."""

    address: str | None = None
    """Of a running cluster, such as `auto` on one of its machines; unset: `RAY_ADDRESS`, and
    without it a cluster of this machine for the run, on loopback."""
    worker_cpus: Annotated[float, Above(0)] = 1.0
    """CPUs that Ray sets aside for a worker: for the encoder and its parsers. Ours."""
    worker_gpus: Annotated[float, Least(0)] = 0.0
    """GPUs of a worker; 0.5: two workers share one. Ours: the packaged encoder takes none."""
    worker_parsers: Annotated[int, Least(1)] = 1
    """Processes of a worker that read files, beside the one that encodes. Ours."""
    start_s: Annotated[float, Above(0)] = 300.0
    """Longest wait for a first worker, in seconds; a cluster that grows on demand takes its time.
    Ours."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How `canopy serve` answers over HTTP. Its key comes from the flag or the environment."""

    host: Annotated[str, NotEmpty()] = "127.0.0.1"
    """Address to listen on. One that others can reach needs a key."""
    port: Annotated[int, Least(0)] = 8377
    """Port to listen on; 0: any that is free."""
    allow_public: bool = False
    """Listen on an address that others can reach without a key."""
    allow_upload: bool = False
    """Let callers add files to the index."""
    upload_folder: str | None = None
    """Folder of the uploaded files; unset: `uploads` in the index's folder. To be set for an index
    on object storage."""
    allow_hosts: str | None = None
    """Further names that this server may be called by, comma-separated; unset: `localhost`, its
    own address, and with a key on an address that others can reach any name."""
    allow_origins: str | None = None
    """Origins whose web pages may call the API (CORS), comma-separated; unset: none but its own."""
    max_searches: Annotated[int, Least(1)] = 128
    """Searches at work or waiting; more are sent away with 503. Ours."""
    max_answers: Annotated[int, Least(1)] = 64
    """Questions at work or waiting; more are sent away with 503. Ours."""
    max_connections: Annotated[int, Least(1)] = 500
    """Clients connected at the same time; more are sent away with 503. Each is an open file of the
    process. Ours."""
    threads: Annotated[int, Least(1)] | None = None
    """Threads that search; unset: one more than there are CPUs."""
    timeout_s: Annotated[float, Above(0)] = 180.0
    """Longest time for one request, in seconds. Ours."""
    body_timeout_s: Annotated[float, Above(0)] = 30.0
    """Longest time for a body to arrive; an upload may take as long for each megabyte. Ours."""
    write_timeout_s: Annotated[float, Above(0)] = 60.0
    """Longest time that a client may take nothing of its reply. Ours."""
    grace_s: Annotated[float, Above(0)] = 20.0
    """Longest wait for running requests when the server is stopped. Ours."""
    max_body_bytes: Annotated[int, Least(1)] = 8_000_000
    """Longest JSON body, that of `/v1/compress`; those of other paths are shorter. Ours."""
    max_upload_bytes: Annotated[int, Least(1)] = 256_000_000
    """Longest uploaded file. Ours."""
    max_uploads_bytes: Annotated[int, Least(1)] = 4_000_000_000
    """All uploaded files together. Ours."""
    session_s: Annotated[float, Above(0)] = 43_200.0
    """How long a browser stays signed in. Ours: twelve hours."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateConfig:
    """What `canopy evaluate` runs."""

    methods: Annotated[str, NotEmpty()] = "vanilla canopy"
    """Methods to compare, with blanks between. Paper: see `configs/paper.toml` (P14, P15)."""
    batch: Annotated[int, Least(1)] = 200
    """Questions at work at once, timed together. Paper: 200 (P17)."""
    portions: Literal["frozen", "paper"] = "frozen"
    """Which questions are the test part. `frozen`: those that were settled for the samples, others
    by the seeded rule, a quarter of them. `paper`: 1,000 by the seeded rule, of LVBench 500
    (P16)."""
    video_window: Annotated[int, Least(256)] | None = None
    """`llm.window` on the video benchmarks; unset: the same. Paper: 64k with Qwen3-VL-8B-Instruct,
    40k with InternVL3.5-8B (P9)."""
    resamples: Annotated[int, Least(1)] = 10_000
    """Of the bootstrap. Paper: 10,000 (P17)."""
    cache: bool = True
    """Keep the chat model's replies beside the run's folder, so that an identical run asks nothing.
    Batches with replies from there say nothing of latency."""

    def __post_init__(self) -> None:
        check_section(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All sections, and where each value came from."""

    retrieval: RetrievalConfig = RetrievalConfig()
    select: SelectConfig = SelectConfig()
    encoder: EncoderConfig = EncoderConfig()
    llm: LLMConfig = LLMConfig()
    ingest: IngestConfig = IngestConfig()
    index: IndexConfig = IndexConfig()
    ray: RayConfig = RayConfig()
    server: ServerConfig = ServerConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    origins: Mapping[str, str] = field(default_factory=dict, hash=False)
    """`section.field` -> origin, for every value that is not a default."""

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return `(key, value, origin)` of every setting, in the order of the sections above.

        A user name and password inside a URL are masked.
        """
        return [
            (key, _masked(getattr(getattr(self, section), name)), self.origins.get(key, DEFAULT))
            for key in keys()
            for section, _, name in [key.partition(".")]
        ]


def _masked(value: Any) -> Any:
    return re.sub(r"://[^/@\s]+@", "://****@", value) if isinstance(value, str) else value


@cache
def sections() -> Mapping[str, type[Any]]:
    """Return the section classes by name, in order."""
    hints = get_type_hints(Config)
    return {one.name: hints[one.name] for one in fields(Config) if one.name != "origins"}


@cache
def keys() -> Mapping[str, Any]:
    """Return `section.field` -> annotation of every setting, in order."""
    return {
        f"{section}.{one.name}": get_type_hints(cls, include_extras=True)[one.name]
        for section, cls in sections().items()
        for one in fields(cls)
    }


def describe(key: str) -> str:
    """Return what a setting takes, in words.

    >>> describe("select.cap")
    'one of margin, tail'
    """
    return describe_hint(keys()[key])
