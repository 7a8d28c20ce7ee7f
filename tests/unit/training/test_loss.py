"""The loss against a loop over pairs that one can follow."""

import math

import numpy as np
import pytest

from canopy_rag.core.preferences import decision_instances
from canopy_rag.core.trees import table_tree
from canopy_rag.training.loss import gradient, instance_losses, pairs

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
