"""`canopy evaluate`: from settings to a folder with the answers of all methods (P14-P18)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from canopy_rag.baselines.base import Method, Parts
from canopy_rag.baselines.frozen import FrozenNodes, finds_alike
from canopy_rag.baselines.registry import build, full_name, parse
from canopy_rag.config import Config
from canopy_rag.core import codec
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import LLM, Fingerprint, MediaPart, placeless
from canopy_rag.core.questions import Question
from canopy_rag.datasets.base import Benchmark
from canopy_rag.datasets.frozen import frozen
from canopy_rag.datasets.splits import Part
from canopy_rag.encoders import names as encoder_names
from canopy_rag.encoders.adapters import read_adapter
from canopy_rag.encoders.locate import ADAPTERS
from canopy_rag.evaluation import oracle
from canopy_rag.evaluation.deciding import decide
from canopy_rag.evaluation.diagnose import Task
from canopy_rag.evaluation.folder import DECISIONS, RunFolder
from canopy_rag.evaluation.journal import Journal
from canopy_rag.evaluation.pool import Pool, files_digest, open_pool
from canopy_rag.evaluation.replies import RememberingLLM, Replies
from canopy_rag.evaluation.runner import Outcome, Runner, Tell, Work
from canopy_rag.evaluation.tasks import load_task
from canopy_rag.pipeline import factory, files
from canopy_rag.pipeline.retrieve import Retriever

CACHE = ".canopy-replies.sqlite"
"""Beside the run's folder, so that runs next to each other share it."""
EncoderRole = Literal["f_theta", "f0"]
Advance = Callable[[str, int, int], None]
"""Hears the stage, how much of it is done, and how much there is (0: unknown)."""
_HASH_CHARS = 16
_RESULT_SETTINGS = ("retrieval.", "select.", "evaluate.portions", "evaluate.video_window")
_LLM_SETTINGS = ("llm.window", "llm.max_answer", "llm.tokenizer", "llm.pictures", "llm.vision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    places: Sequence[tuple[Benchmark, Path]]
    config: Config
    methods: Sequence[str]
    part: Part = "test"
    limit: int | None = None
    """Most questions of each benchmark; None: all."""
    max_items: int | None = None
    """Most items of each benchmark besides the gold ones; None: all."""
    index: Path | None = None
    """Folder of the pools; None: `index` in the run's folder."""
    cache: Path | None = None
    """File of replies; None: beside the run's folder."""


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """One run: open it, `run` it, and close it."""

    plan: Plan
    folder: RunFolder
    advance: Advance = lambda stage, done, total: None
    tell: Tell | None = None
    llm: RememberingLLM | None = field(default=None, init=False)
    """The chat model with its counts; None before the run, and without one."""

    async def run(self) -> Outcome:
        """Read, encode what is new, ask what is not answered yet.

        Raises:
            ConfigError: If the folder holds another run, naming what differs, a method cannot be
                built, or the package's adapter was trained on what is tested.
            DataError: If a benchmark cannot be read, or another process runs in the folder.
            CanopyError: If every question of a batch fails.
        """
        with self.folder.held():
            tasks = self._tasks()
            names = _full_names(self.plan.methods)
            self.folder.check(self._known(tasks, names))
            pools = self._pools(tasks, names)
            llm = self._build_llm(tasks, pools)
            replies = self._replies(llm)
            self.llm = None if llm is None else RememberingLLM(llm, replies)
            try:
                await _discover(llm)
                works = self._works(tasks, pools, names)
                self.folder.begin(self._fixed(tasks, pools, names), self._free(names))
                self._decide(tasks, pools)
                runner = Runner(
                    self.folder,
                    llm=self.llm,
                    batch=self.plan.config.evaluate.batch,
                    tell=self.tell,
                )
                return await runner.run(works)
            finally:
                if replies is not None:
                    replies.close()
                if llm is not None:
                    await llm.aclose()

    def _tasks(self) -> list[Task]:
        plan = self.plan
        splitter = files.build_options(plan.config.ingest).splitter
        names = [found.name for found, _ in plan.places]
        if not names or len(set(names)) < len(names):
            raise ConfigError("name at least one benchmark, and each once: -b NAME=PATH")
        tasks: list[Task] = []
        for number, (found, folder) in enumerate(plan.places):
            self.advance(f"reading {found.name}", number, len(names))
            tasks.append(
                load_task(
                    found,
                    folder,
                    splitter,
                    part=plan.part,
                    limit=plan.limit,
                    max_items=plan.max_items,
                    portions=plan.config.evaluate.portions,
                )
            )
        if plan.part == "test":
            check_untrained(plan.config, tasks)
        return tasks

    def _pools(self, tasks: Sequence[Task], methods: Sequence[str]) -> dict[str, dict[str, Pool]]:
        """Return the pools by group and encoder."""
        plan = self.plan
        base = plan.index or self.folder / "index"
        roles: dict[str, Config] = {"f_theta": plan.config}
        suffix = ""
        if any(_wants_frozen(name) for name in methods):
            frozen = _frozen(plan.config)
            if frozen is not None:
                roles["f0"] = frozen
                one, other = (factory.build_encoder(each.encoder) for each in roles.values())
                # Vectors of an adapter that maps queries alone are those of the frozen encoder.
                suffix = "" if one.fingerprint.agrees(other.fingerprint) else "-f0"
        groups: dict[str, list[Task]] = defaultdict(list)
        for task in tasks:
            groups[task.group].append(task)
        return {
            group: {
                role: open_pool(
                    base / (group if role == "f_theta" else f"{group}{suffix}"),
                    config,
                    members,
                    self._contents(members),
                    advance=partial(self._encoded, group, role),
                )
                for role, config in roles.items()
            }
            for group, members in groups.items()
        }

    def _encoded(self, group: str, role: str, n: int) -> None:
        self.advance(f"encoding the {group} pool ({role})", n, 0)

    def _contents(self, members: Sequence[Task]) -> dict[str, Any]:
        """Return what the items of a pool depend on."""
        plan = self.plan
        paths = {found.name: folder for found, folder in plan.places}
        what: dict[str, Any] = {
            "benchmarks": {task.name: files_digest(paths[task.name]) for task in members}
        }
        if plan.max_items is not None:  # then the gold items of the questions are in before others
            what |= {"max_items": plan.max_items, "questions": _digest(_questions(members))}
        return what

    def _build_llm(
        self, tasks: Sequence[Task], pools: Mapping[str, Mapping[str, Pool]]
    ) -> LLM | None:
        name, _, decisions = self.plan.config.llm.name.partition(":")
        if name != oracle.PREFIX:
            return factory.build_llm(self.plan.config.llm)
        stores = [pools[task.group]["f_theta"].store for task in tasks]
        by_item = {
            span.item_id: store
            for task, store in zip(tasks, stores, strict=True)
            for question in task.questions
            for span in question.gold
        }

        def fetch(item_ids: Sequence[str]) -> list[Any]:
            return [by_item[item_id].get([item_id])[0] for item_id in item_ids]

        return oracle.OracleLLM(_questions(tasks), fetch, decisions or "titles")

    def _replies(self, llm: LLM | None) -> Replies | None:
        wanted = self.plan.config.evaluate.cache or self.plan.cache is not None
        if llm is None or not wanted or llm.name.startswith(oracle.PREFIX):
            return None
        return Replies(self.plan.cache or self.folder.path.parent / CACHE)

    def _works(
        self,
        tasks: Sequence[Task],
        pools: Mapping[str, Mapping[str, Pool]],
        methods: Sequence[str],
    ) -> list[Work]:
        metrics = {found.name: found.metric for found, _ in self.plan.places}
        return [
            Work(
                benchmark=task.name,
                metric=metrics[task.name],
                questions=task.questions,
                method=method,
            )
            for task in tasks
            for method in self._methods(task, pools[task.group], methods)
        ]

    def _methods(self, task: Task, pools: Mapping[str, Pool], names: Sequence[str]) -> list[Method]:
        config = self._config_of(task)
        pool = pools["f_theta"]

        def load(part: MediaPart) -> str:
            return factory.load_picture(part, pool.path, anywhere=True)

        loop = factory.build_loop(
            config, pool.encoder, pool.store, self.llm, style="short", load=load
        )
        frozen = loop.retriever
        if "f0" in pools:
            frozen = _frozen_retriever(frozen, pools["f0"])
        parts = Parts(
            loop=loop,
            llm=self.llm,
            frozen=frozen,
            splitter=files.build_options(config.ingest).splitter,
        )
        return [build(name, parts) for name in names]

    def _config_of(self, task: Task) -> Config:
        """Return the settings for one benchmark: videos have a window of their own (P9)."""
        config = self.plan.config
        window = config.evaluate.video_window
        metric = {found.name: found.metric for found, _ in self.plan.places}[task.name]
        if window is None or metric != "accuracy":
            return config
        return replace(
            config,
            llm=replace(config.llm, window=window),
            select=replace(config.select, budget=window),
        )

    def _decide(self, tasks: Sequence[Task], pools: Mapping[str, Mapping[str, Pool]]) -> None:
        with Journal(self.folder / DECISIONS) as journal:
            for task in tasks:
                n_done = 0

                def advance(n: int, task: Task = task) -> None:
                    nonlocal n_done
                    n_done += n
                    self.advance(f"decisions, {task.name}", n_done, 0)

                own = dict(pools[task.group])
                if _frozen(self.plan.config) is None:  # the only encoder is the frozen one
                    own = {"f0": own["f_theta"]}
                decide(journal, task.name, task.questions, own, advance=advance)

    def _known(self, tasks: Sequence[Task], methods: Sequence[str]) -> dict[str, Any]:
        """Return what results depend on, as far as it is known before items are encoded."""
        plan = self.plan
        about = {found.name: (found, folder) for found, folder in plan.places}
        encoder = factory.build_encoder(plan.config.encoder).fingerprint
        return {
            "benchmarks": {
                task.name: {
                    "title": about[task.name][0].title,
                    "group": task.group,
                    "metric": about[task.name][0].metric,
                    "files": files_digest(about[task.name][1]),
                    "n_total": task.n_total,
                    "n_kept": task.n_kept,
                    "n_questions": len(task.questions),
                    "questions": _digest(task.questions),
                }
                for task in tasks
            },
            "part": plan.part,
            "limit": plan.limit,
            "max_items": plan.max_items,
            "settings": {
                key: value
                for key, value, _ in plan.config.rows()
                if key.startswith(_RESULT_SETTINGS) or key in _LLM_SETTINGS
            },
            "models": {
                "encoder": {**_fingerprint(encoder), "adapter": _adapter(plan.config)},
                **self._frozen_model(methods),
            },
        }

    def _frozen_model(self, methods: Sequence[str]) -> dict[str, Any]:
        """Return the fingerprint of the encoder without its adapter, if a method compares by it."""
        frozen = _frozen(self.plan.config)
        if frozen is None or not any(_wants_frozen(name) for name in methods):
            return {}
        return {"frozen": _fingerprint(factory.build_encoder(frozen.encoder).fingerprint)}

    def _fixed(
        self,
        tasks: Sequence[Task],
        pools: Mapping[str, Mapping[str, Pool]],
        methods: Sequence[str],
    ) -> dict[str, Any]:
        """Return all that results depend on."""
        fixed = self._known(tasks, methods)
        for task in tasks:
            fixed["benchmarks"][task.name] |= pools[task.group]["f_theta"].counts[task.name]
        fixed["models"]["llm"] = "none" if self.llm is None else self.llm.name
        return fixed

    def _free(self, methods: Sequence[str]) -> dict[str, Any]:
        """Return what may change from one start to the next."""
        config = self.plan.config
        settings = {key: value for key, value, _ in config.rows()}
        names = ("llm.name", "llm.max_in_flight", "evaluate.batch", "evaluate.cache")
        return {
            "methods": list(methods),
            "paths": {found.name: str(folder) for found, folder in self.plan.places},
            **{name: settings[name] for name in (*names, "encoder.name")},
        }


def check_untrained(config: Config, tasks: Sequence[Task]) -> None:
    """Check that the adapter of the package was not trained on what is tested.

    It was trained, and chosen, on the frozen parts; the paper's portions are another draw.

    Raises:
        ConfigError: If it was.
    """
    named = encoder_names.parse(config.encoder.name)
    own = named.scheme != "minilm" or named.adapter is not None or config.encoder.weights
    if own or named.target == "base":
        return
    manifest = read_adapter(ADAPTERS[named.target]).manifest
    seen = {name.partition(":")[0] for name in manifest["data"]}
    for task in tasks:
        settled = frozen(task.name) if task.name in seen else None
        parts = {} if settled is None else settled.parts
        n = sum(parts.get(question.id, "test") != "test" for question in task.questions)
        if n:
            raise ConfigError(
                f"the adapter of {config.encoder.name!r} was trained or chosen on {n} of the "
                f"{len(task.questions)} test questions of {task.name}; take "
                'evaluate.portions = "frozen", or an encoder without it: minilm:base, or '
                "minilm:base+DIR with one of your own"
            )


async def _discover(llm: LLM | None) -> None:
    """Let a server tell its model, by whose name replies are kept."""
    ask = getattr(llm, "discover", None)
    if ask is not None:
        await ask()


def _full_names(methods: Sequence[str]) -> list[str]:
    names = [full_name(*parse(name)) for name in methods]
    if not names:
        raise ConfigError("name at least one method: --method NAME")
    return list(dict.fromkeys(names))


def _wants_frozen(name: str) -> bool:
    _, settings = parse(name)
    return getattr(settings, "encoder", "f_theta") == "f0"


def _frozen(config: Config) -> Config | None:
    """Return the settings without the encoder's adapter; None if it has none."""
    name = encoder_names.without_adapter(config.encoder.name)
    return None if name is None else replace(config, encoder=replace(config.encoder, name=name))


def _frozen_retriever(own: Retriever, pool: Pool) -> Retriever:
    """Return what finds the items that `own` finds, and compares their nodes with f0."""
    if finds_alike(own.encoder, pool.encoder):
        return Retriever(encoder=pool.encoder, store=pool.store, hybrid=own.hybrid)
    return FrozenNodes(
        encoder=own.encoder,
        store=own.store,
        hybrid=own.hybrid,
        frozen=pool.encoder,
        source=pool.store,
    )


def _adapter(config: Config) -> str | None:
    """Return a checksum of the adapter's folder; None without one."""
    folder = factory.adapter_folder(config.encoder.name)
    return files_digest(Path(folder)) if folder else None


def _questions(tasks: Sequence[Task]) -> list[Question]:
    return [question for task in tasks for question in task.questions]


def _digest(questions: Sequence[Question]) -> str:
    digest = hashlib.sha256()
    for question in questions:
        digest.update(codec.dumps(question).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:_HASH_CHARS]


def _fingerprint(fingerprint: Fingerprint) -> dict[str, Any]:
    fields = dataclasses.asdict(fingerprint)
    return {"name": placeless(fields.pop("model")), **fields}
