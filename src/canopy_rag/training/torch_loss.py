"""The losses on tensors; `loss` says what they are."""

from __future__ import annotations

from typing import Any

from canopy_rag._optional import require
from canopy_rag.training.loss import Contrasts, Pairs
from canopy_rag.training.recipe import Reduction


def instance_losses(
    similarities: Any, wanted: Pairs, scale: float = 20.0, reduction: Reduction = "mean"
) -> Any:
    """Return the loss of each instance as a tensor `(n_instances,)`, differentiable.

    Args:
        similarities: Of all nodes, one float32 tensor.
        wanted: What should hold among them.
        scale: Lambda.
        reduction: How an instance's pairs are put together.
    """
    torch = require("torch", extra="train", feature="training")

    def tensor(values: Any) -> Any:
        return torch.as_tensor(values, device=similarities.device)

    preferred, other, instance = map(tensor, (wanted.preferred, wanted.other, wanted.instance))
    costs = -scale * (similarities[preferred] - similarities[other])  # (n_pairs,)
    zeros = costs.new_zeros(wanted.n_instances)
    if reduction == "mean":
        sums = zeros.index_add(0, instance, torch.nn.functional.softplus(costs))
        return sums / zeros.index_add(0, instance, torch.ones_like(costs)).clamp(min=1)
    top = zeros.scatter_reduce(0, instance, costs.detach(), "amax")
    sums = zeros.index_add(0, instance, torch.exp(costs - top[instance]))
    return top + torch.log(torch.exp(-top) + sums)


def contrast_losses(similarities: Any, wanted: Contrasts, scale: float = 20.0) -> Any:
    """Return the loss of each row as a tensor `(n_rows,)`, differentiable.

    Args:
        similarities: `(n_rows, n_columns)`, float32.
        wanted: Which columns are gold, and which must lie below.
        scale: Lambda.
    """
    torch = require("torch", extra="train", feature="training")
    counted = wanted.gold.any(axis=1) & wanted.other.any(axis=1)
    kept = torch.as_tensor(counted, device=similarities.device)
    gold = torch.as_tensor(wanted.gold[counted], device=similarities.device)
    other = torch.as_tensor(wanted.other[counted], device=similarities.device)
    values = scale * similarities[kept]  # (n_counted, n_columns)
    below = torch.logsumexp(values.masked_fill(~other, -torch.inf), dim=1, keepdim=True)
    costs = torch.nn.functional.softplus(below - values).masked_fill(~gold, 0.0)
    means = costs.sum(dim=1) / gold.sum(dim=1)
    return similarities.new_zeros(len(similarities)).masked_scatter(kept, means)
