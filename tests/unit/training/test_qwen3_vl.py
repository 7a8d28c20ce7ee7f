"""A tiny random model of the real architecture is trained, killed, resumed, saved and loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
pytest.importorskip("transformers", reason="transformers is not installed (extra `train`)")
pytest.importorskip("peft", reason="peft is not installed (extra `train`)")

from safetensors.numpy import load_file  # noqa: E402

from canopy_rag.config import EncoderConfig  # noqa: E402
from canopy_rag.core.errors import ConfigError, EncodeError  # noqa: E402
from canopy_rag.core.vectors import node_matrix  # noqa: E402
from canopy_rag.encoders.qwen3_vl import Qwen3VL  # noqa: E402
from canopy_rag.encoders.registry import encoder, from_config  # noqa: E402
from canopy_rag.testing.tiny_qwen import write_tiny_qwen  # noqa: E402
from canopy_rag.training import MINILM, PAPER  # noqa: E402
from canopy_rag.training.data import Example, Portion  # noqa: E402
from canopy_rag.training.loop import fit  # noqa: E402
from canopy_rag.training.lora import assert_frozen  # noqa: E402
from canopy_rag.training.qwen3_vl import Qwen3VLBackbone  # noqa: E402
from canopy_rag.training.run import Job, train  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]
TEN_STEPS = replace(PAPER, learning_rate=3e-3, batch=8, epochs=3, schedule="constant", dropout=0.05)
CHILD = """
import os, signal, sys
from canopy_rag.cli import main
from canopy_rag.training import loop

kill_at = int(sys.argv.pop(1))
step = loop._Run._step

def dying(run, number):
    if number == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(run, number)

loop._Run._step = dying
main()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen(tmp_path_factory.mktemp("tiny") / "model")


def backbone(model: Path, recipe=TEN_STEPS) -> Qwen3VLBackbone:
    return Qwen3VLBackbone(Qwen3VL(str(model)), recipe)


def test_ten_steps_lower_the_loss_and_move_nothing_but_the_adapter(model, learned):
    tiny = backbone(model)
    before = {name: value.clone() for name, value in tiny.module.state_dict().items()}
    readings = [tiny._encoder.query_reading("What is the bell made of?")]
    with torch.no_grad(), tiny.module.disable_adapter():
        frozen = tiny._vectors(readings, ["query"])
    losses = []
    fit(tiny, learned, None, TEN_STEPS, on_progress=lambda now: losses.append(now.loss))
    assert len(losses) >= 10
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    moved = {
        name
        for name, value in tiny.module.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert moved
    assert all(".lora_" in name and ".language_model." in name for name in moved)
    with torch.no_grad(), tiny.module.disable_adapter():
        assert torch.equal(tiny._vectors(readings, ["query"]), frozen)
    with torch.no_grad():
        assert not torch.equal(tiny._vectors(readings, ["query"]), frozen)


def test_the_adapter_is_on_every_projection_of_the_language_backbone(model):
    names = {
        name.split(".lora_")[0].rsplit(".", 1)[-1]
        for name, value in backbone(model).module.named_parameters()
        if value.requires_grad
    }
    seven = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert names == seven


def test_a_vision_tower_that_would_be_trained_is_refused(model):
    network = Qwen3VL(str(model)).load_network()
    with pytest.raises(ConfigError, match="visual"):
        assert_frozen(network, "visual")


def test_what_was_trained_is_loaded_with_the_same_vectors(model, source, learned, tmp_path):
    job = Job(
        encoder=EncoderConfig(name=f"qwen3-vl:{model}"),
        sources=[source],
        out=tmp_path / "adapter",
        recipe=replace(TEN_STEPS, keep="last", epochs=1),
    )
    body = train(job)
    assert body["base"]["model"] == f"qwen3-vl:{model}"
    tiny = backbone(model, job.recipe)
    fit(tiny, learned, None, job.recipe)
    loaded = encoder(f"qwen3-vl:{model}+{tmp_path / 'adapter'}")
    plain = encoder(f"qwen3-vl:{model}")
    items = [each.item for each in learned.examples[:2]]
    found, frozen = loaded.encode_items(items), plain.encode_items(items)
    for item, one, two in zip(items, found, frozen, strict=True):
        with torch.no_grad():
            readings = tiny._encoder.node_readings(item, item.nodes)
            expected = tiny._vectors(readings, [item.id] * len(readings)).numpy()
        assert node_matrix(item.nodes, one.nodes) == pytest.approx(expected, abs=1e-3)
        assert np.array_equal(one.item, two.item)
        assert not np.allclose(one.nodes.rows, two.nodes.rows, atol=1e-3)


def test_the_adapter_has_the_names_that_servers_know_the_model_by(model, tmp_path):
    """vLLM serves the model with its language head and ignores names that are not its own."""
    import peft
    import transformers

    tiny = backbone(model)
    with torch.no_grad():
        for name, value in tiny.module.named_parameters():
            if "lora_B" in name:
                value.fill_(0.01)
    tiny.write(tmp_path)
    names = load_file(tmp_path / "adapter_model.safetensors")
    assert all(name.startswith("base_model.model.model.language_model.layers.") for name in names)
    whole = transformers.Qwen3VLForConditionalGeneration.from_pretrained(model)
    adapted = peft.PeftModel(whole, peft.PeftConfig.from_pretrained(tmp_path))
    report = adapted.load_adapter(str(tmp_path), "default")
    assert not report.missing_keys
    assert not report.unexpected_keys
    loaded = {
        name.replace("base_model.model.model.", "base_model.model."): value
        for name, value in adapted.named_parameters()
        if "lora_" in name
    }
    own = {name: value for name, value in tiny.module.named_parameters() if "lora_" in name}
    assert set(loaded) == set(own)
    assert all(torch.equal(loaded[name], value) for name, value in own.items())


def test_over_weights_in_half_precision_the_adapter_is_trained_in_full(model, learned):
    few = replace(learned, examples=learned.examples[:4])
    recipe = replace(TEN_STEPS, epochs=1, precision="bf16")
    config = EncoderConfig(name=f"qwen3-vl:{model}", dtype="bf16")
    tiny = Qwen3VLBackbone(from_config(config), recipe)
    losses = []
    fit(tiny, few, None, recipe, on_progress=lambda now: losses.append(now.loss))
    assert np.isfinite(losses).all()
    for name, value in tiny.module.named_parameters():
        assert value.dtype == (torch.float32 if ".lora_" in name else torch.bfloat16), name


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ({"device_map": "auto"}, r"unset encoder\.device_map.*accelerate launch"),
        ({"device": "cuda:7"}, r"not on 'cuda:7'; unset encoder\.device"),
    ],
)
def test_a_place_other_than_the_processs_own_is_refused(model, place, told):
    config = EncoderConfig(name=f"qwen3-vl:{model}", **place)
    with pytest.raises(ConfigError, match=told):
        Qwen3VLBackbone(from_config(config), TEN_STEPS)


def test_recomputing_inner_states_changes_nothing_but_memory(model, learned):
    few = replace(learned, examples=learned.examples[:4])
    recipe = replace(TEN_STEPS, dropout=0.0, epochs=1)
    plain, thrifty = backbone(model, recipe), backbone(model, replace(recipe, recompute=True))
    for tiny in (plain, thrifty):
        fit(tiny, few, None, recipe)
    for one, two in zip(plain.module.parameters(), thrifty.module.parameters(), strict=True):
        assert one.detach().numpy() == pytest.approx(two.detach().numpy(), abs=1e-5)


def test_an_image_among_the_nodes_reaches_the_adapter_and_no_vision_weight(
    model, learned, tmp_path
):
    from PIL import Image

    from canopy_rag.core.preferences import decision_instances
    from canopy_rag.core.trees import table_tree
    from canopy_rag.core.types import ImagePayload
    from canopy_rag.testing.encoder_contract import make_item

    Image.new("RGB", (64, 64), (200, 30, 30)).save(tmp_path / "red.png")
    payload = ImagePayload(media=str(tmp_path / "red.png"), width=64, height=64, caption="Red")
    nodes = table_tree(2)  # a tree with a decision, over one picture
    example = Example(
        benchmark="made",
        question_id="red",
        query="What is red?",
        item=make_item("red", "image", payload, nodes, "Colours"),
        instances=tuple(decision_instances(nodes, {1})),
    )
    given = Portion(
        part="train", examples=(example, learned.examples[0]), n_questions=2, n_unsplit=0
    )
    tiny = backbone(model)
    before = {
        name: value.clone()
        for name, value in tiny.module.state_dict().items()
        if ".visual." in name
    }
    fitted = fit(tiny, given, None, TEN_STEPS)
    assert fitted.loss is not None
    after = tiny.module.state_dict()
    assert before
    assert all(torch.equal(after[name], value) for name, value in before.items())
    (tmp_path / "red.png").write_bytes(b"broken")
    with pytest.raises(EncodeError, match="red"):
        fit(backbone(model), given, None, TEN_STEPS)


SCENES = [(20, 1.0), (90, 1.0), (160, 1.0), (230, 1.0)]


def films(make_clip, n: int) -> Portion:
    """Videos of four segments, one of which answers."""
    from canopy_rag.core.preferences import decision_instances
    from canopy_rag.core.trees import video_tree
    from canopy_rag.core.types import Segment, VideoPayload
    from canopy_rag.testing.encoder_contract import make_item

    examples = []
    for number in range(n):
        clip = make_clip(f"film{number}.mp4", SCENES)
        segments = tuple(
            Segment(start=float(at), stop=at + 1.0, frames=(at + 0.2, at + 0.7), subtitles="")
            for at in range(4)
        )
        payload = VideoPayload(
            media=str(clip), duration_s=4.0, segments=segments, width=64, height=36
        )
        nodes = video_tree(segments)
        leaf = next(node.index for node in nodes if not node.children and node.start == number)
        item = make_item(clip.name, "video", payload, nodes, f"Film {number}")
        examples.append(
            Example(
                benchmark="made",
                question_id=f"q{number}",
                query=f"When is it grey, number {number}?",
                item=item,
                instances=tuple(decision_instances(nodes, {leaf})),
            )
        )
    return Portion(part="train", examples=tuple(examples), n_questions=n, n_unsplit=0)


def test_the_frames_of_a_video_are_decoded_once_however_long_is_trained(
    model, make_clip, monkeypatch
):
    from canopy_rag import media

    given = films(make_clip, 3)
    recipe = replace(TEN_STEPS, batch=1, epochs=2, dropout=0.0)
    decoded: list[tuple[str, float]] = []
    load = media.load_frames

    def counting(name, times, root):
        decoded.extend((name, time) for time in times)
        return load(name, times, root)

    monkeypatch.setattr(media, "load_frames", counting)
    losses: dict[bool, list[float | None]] = {}
    for keeps in (True, False):
        decoded.clear()
        options = {} if keeps else {"keep_bytes": 0}
        tiny = Qwen3VLBackbone(Qwen3VL(str(model)), recipe, **options)
        told = losses[keeps] = []
        fit(tiny, given, None, recipe, on_progress=lambda now, told=told: told.append(now.loss))
        assert len(set(decoded)) == 3 * 8
        assert (len(decoded) == len(set(decoded))) is keeps
    assert len(losses[True]) >= 12
    assert losses[True] == losses[False]


def test_a_video_that_is_broken_is_named_and_training_ends(model, make_clip):
    given = films(make_clip, 2)
    broken = Path(given.examples[1].item.payload.media)
    broken.write_bytes(broken.read_bytes()[:200])
    with pytest.raises(EncodeError, match=given.examples[1].item.id):
        fit(backbone(model), given, None, replace(TEN_STEPS, epochs=1))


def test_a_smaller_batch_of_tokens_makes_the_same_similarities(model, learned):
    config = EncoderConfig(name=f"qwen3-vl:{model}", batch_tokens=1)
    one_by_one = Qwen3VLBackbone(from_config(config), TEN_STEPS)
    together = backbone(model)
    for tiny in (one_by_one, together):
        tiny.module.eval()
    with torch.no_grad():
        found = [tiny.similarities(learned.examples[:2]) for tiny in (one_by_one, together)]
    for one, other in zip(*found, strict=True):
        assert one.numpy() == pytest.approx(other.numpy(), abs=1e-5)


def test_all_weights_are_not_trained(model):
    with pytest.raises(ConfigError, match="lora"):
        backbone(model, replace(TEN_STEPS, kind="full"))


def command(own: Path, model: Path, out: Path) -> list[str]:
    options = ["--benchmark", f"jsonl={own}", "--encoder", f"qwen3-vl:{model}", "--out", str(out)]
    options += ["--epochs", "1", "--batch", "4", "--evaluate-every", "3", "--learning-rate", "3e-3"]
    return ["train", *options, "--json", "--quiet"]


def test_a_training_that_is_killed_goes_on_to_the_same_bytes(model, write_own, tmp_path):
    own = write_own()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def run(kill_at: int, out: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", CHILD, str(kill_at), *command(own, model, out)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = run(-1, whole)
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["results"]["steps"]
    assert steps > 5
    assert run(5, killed).returncode == -signal.SIGKILL
    assert not killed.exists()
    again = run(-1, killed)
    assert again.returncode == 0, again.stderr
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    bodies = [json.loads((each / "adapter.json").read_text()) for each in (whole, killed)]
    for body in bodies:
        del body["results"]["seconds"]
    assert bodies[0] == bodies[1]
    assert {each.name for each in tmp_path.iterdir()} == {"own.jsonl", "whole", "killed"}


def test_the_registry_gives_an_encoder_that_can_be_trained(model):
    assert isinstance(from_config(EncoderConfig(name=f"qwen3-vl:{model}")), Qwen3VL)


def test_two_processes_take_the_steps_of_one(model, write_own, source, tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed (extra `train`)")
    alone, together, script = (tmp_path / name for name in ("alone", "together", "canopy.py"))
    # Without dropout, whose random numbers differ from process to process.
    plain = {"across": 0.0, "neighbours": 1, "lexical": False, "precision": "fp32"}
    recipe = replace(MINILM, epochs=1, batch=4, evaluate_every=3, learning_rate=3e-3, **plain)
    flags = ["--across", "0", "--neighbours", "1", "--no-lexical", "--precision", "fp32"]
    config = EncoderConfig(name=f"qwen3-vl:{model}")
    train(Job(encoder=config, sources=[source], out=alone, recipe=recipe))
    script.write_text("from canopy_rag.cli import main\nmain()\n")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run(
        [
            sys.executable,
            *launch,
            *command(write_own(), model, together),
            "--preset",
            "minilm",
            *flags,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]["steps"] > 3
    one, two = (load_file(each / "adapter_model.safetensors") for each in (alone, together))
    for name, value in one.items():
        assert two[name] == pytest.approx(value, abs=1e-4)
