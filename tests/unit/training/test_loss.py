"""The loss against a loop over pairs that one can follow."""

import math

import numpy as np
import pytest

from canopy_rag.core.preferences import decision_instances
from canopy_rag.core.trees import table_tree
from canopy_rag.training.loss import Contrasts, contrast_losses, gradient, instance_losses, pairs

REDUCTIONS = ("mean", "logsumexp")


def scalar_loss(similarities, instances, scale, reduction):
    """D4, a pair at a time."""
    losses = []
    for instance in instances:
        costs = []
        for preference in instance.preferences:
            gap = float(similarities[preference.preferred]) - float(similarities[preference.other])
            costs.append(-scale * gap)
        if reduction == "mean":
            losses.append(sum(math.log(1 + math.exp(cost)) for cost in costs) / len(costs))
        else:
            losses.append(math.log(1 + sum(math.exp(cost) for cost in costs)))
    return losses


def random_case(seed):
    """A tree, gold in it, similarities."""
    draw = np.random.default_rng(seed)
    nodes = table_tree(int(draw.integers(2, 12)))
    leaves = [node.index for node in nodes if not node.children]
    gold = draw.choice(leaves, size=int(draw.integers(1, len(leaves) + 1)), replace=False)
    instances = decision_instances(nodes, gold.tolist())
    return instances, draw.uniform(-1, 1, len(nodes))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("seed", range(30))
def test_it_equals_a_loop_over_the_pairs(seed, reduction):
    instances, similarities = random_case(seed)
    scale = 3.0 + seed
    found = instance_losses(similarities, pairs([instances], [0]), scale, reduction)
    assert found == pytest.approx(scalar_loss(similarities, instances, scale, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_items_stand_one_after_the_other(reduction):
    cases = [random_case(seed) for seed in range(5)]
    starts = np.cumsum([0, *(len(values) for _, values in cases)])[:-1].tolist()
    together = np.concatenate([values for _, values in cases])
    wanted = pairs([instances for instances, _ in cases], starts)
    alone = [
        loss
        for instances, values in cases
        for loss in scalar_loss(values, instances, 20.0, reduction)
    ]
    assert instance_losses(together, wanted, 20.0, reduction) == pytest.approx(alone)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("seed", range(8))
def test_the_gradient_is_that_of_small_steps(seed, reduction):
    instances, similarities = random_case(seed)
    wanted = pairs([instances], [0])
    step = 1e-6
    for node in range(len(similarities)):
        moved = [similarities.copy(), similarities.copy()]
        moved[0][node] += step
        moved[1][node] -= step
        up, down = (instance_losses(each, wanted, 5.0, reduction).mean() for each in moved)
        slope = (up - down) / (2 * step)
        assert gradient(similarities, wanted, 5.0, reduction)[node] == pytest.approx(
            slope, abs=1e-6
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_hopeless_pair_costs_its_distance_and_overflows_nowhere(reduction):
    (instance,) = decision_instances(table_tree(2), {1})
    wanted = pairs([[instance]], [0])
    found = instance_losses(np.array([0.0, -1.0, -1.0]), wanted, 1e4, reduction)
    assert found[0] == pytest.approx(1e4 / (2 if reduction == "mean" else 1))
    assert np.isfinite(gradient(np.array([0.0, -1.0, -1.0]), wanted, 1e4, reduction)).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_on_tensors_it_is_the_same_with_the_same_gradient(seed, reduction):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    from canopy_rag.training import torch_loss

    instances, similarities = random_case(seed)
    wanted = pairs([instances], [0])
    tensor = torch.tensor(similarities, requires_grad=True)
    losses = torch_loss.instance_losses(tensor, wanted, 20.0, reduction)
    losses.mean().backward()
    expected = instance_losses(similarities, wanted, 20.0, reduction)
    assert losses.detach().numpy() == pytest.approx(expected)
    slope = gradient(similarities, wanted, 20.0, reduction)
    assert tensor.grad.numpy() == pytest.approx(slope, abs=1e-9)


def random_contrasts(seed):
    """Similarities, what is gold and what must lie below; some rows have nothing."""
    draw = np.random.default_rng(seed)
    shape = (int(draw.integers(1, 6)), int(draw.integers(2, 9)))
    gold = draw.random(shape) < 0.3
    other = (draw.random(shape) < 0.6) & ~gold
    return draw.uniform(-1, 1, shape), Contrasts(gold, other)


def scalar_contrast(row, gold, other, scale):
    """The second term of one row, a number at a time."""
    if not len(gold) or not len(other):
        return 0.0
    total = sum(math.exp(scale * row[each]) for each in other)
    return sum(math.log(1 + total / math.exp(scale * row[each])) for each in gold) / len(gold)


@pytest.mark.parametrize("seed", range(30))
def test_the_term_across_items_equals_a_loop(seed):
    similarities, wanted = random_contrasts(seed)
    expected = [
        scalar_contrast(row.tolist(), np.flatnonzero(gold), np.flatnonzero(other), 3.0 + seed)
        for row, gold, other in zip(similarities, wanted.gold, wanted.other, strict=True)
    ]
    assert contrast_losses(similarities, wanted, 3.0 + seed) == pytest.approx(expected)
    assert wanted.n_counted == sum(value > 0 for value in expected)


@pytest.mark.parametrize("seed", range(30))
def test_the_term_across_items_is_the_same_in_torch(seed):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    from canopy_rag.training import torch_loss

    similarities, wanted = random_contrasts(seed)
    tensor = torch.tensor(similarities, dtype=torch.float32, requires_grad=True)
    found = torch_loss.contrast_losses(tensor, wanted, 20.0)
    assert found.detach().numpy() == pytest.approx(
        contrast_losses(similarities, wanted, 20.0), rel=1e-4, abs=1e-5
    )
    found.sum().backward()
    assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("seed", range(8))
def test_torchs_gradient_across_items_is_that_of_small_steps(seed):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    from canopy_rag.training import torch_loss

    similarities, wanted = random_contrasts(seed)
    tensor = torch.tensor(similarities, requires_grad=True)
    torch_loss.contrast_losses(tensor, wanted, 20.0).sum().backward()
    step = 1e-6
    for place in np.ndindex(similarities.shape):
        moved = [similarities.copy(), similarities.copy()]
        moved[0][place] -= step
        moved[1][place] += step
        low, high = (contrast_losses(each, wanted, 20.0).sum() for each in moved)
        slope = (high - low) / (2 * step)
        assert float(tensor.grad[place]) == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_similarities_far_apart_do_not_overflow_across_items():
    wanted = Contrasts(np.array([[True, False]]), np.array([[False, True]]))
    assert contrast_losses(np.array([[-50.0, 50.0]]), wanted) == pytest.approx([2000.0])
    assert contrast_losses(np.array([[50.0, -50.0]]), wanted) == pytest.approx([0.0])
