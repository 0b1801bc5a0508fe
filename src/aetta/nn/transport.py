"""Optimal transport from images to classes: the best labels for a batch, where each class has its quota."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

__all__ = ["shared_out"]

NOTHING = 1e-9  # mass, or gain, that is rounding


@torch.no_grad()
def shared_out(scores: Tensor, quotas: Tensor) -> Tensor:
    """Each image shared out among the classes, so that the classes get their quotas and the score is the largest.

    Every image first goes to its best class; then what is too much in some classes moves, along the cheapest chains of
    exchanges, to where there is too little (successive shortest paths). The result is exact, and on the CPU. It takes
    about one chain for each class and a few for each excess image: 10 classes are quick, 1,000 take seconds.

    scores: [images, classes].
    quotas: The share of the images each class gets, [classes]; they sum to one.
    Returns the share of each image that goes to each class, [images, classes]; rows sum to one.

    >>> shared_out(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0.5, 0.5]))
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    scores = scores.detach().double().cpu()
    plan = torch.nn.functional.one_hot(scores.argmax(1), scores.shape[1]).double()
    excess = plan.sum(0) - quotas.double().cpu() * len(scores)  # [classes]
    gains, movers = torch.full((2, len(excess), len(excess)), -torch.inf, dtype=torch.float64)
    changed = list(range(len(excess)))
    for _ in range(100 * sum(scores.shape)):  # far more than it takes
        for source in changed:
            _offer(source, plan, scores, gains, movers)
        if not bool((excess > NOTHING).any() & (excess < -NOTHING).any()):
            break
        chain = _best_chain(gains, excess)
        moves = [(int(movers[a, b]), a, b) for a, b in pairwise(chain)]
        most = [float(excess[chain[0]]), -float(excess[chain[-1]]), *(float(plan[image, a]) for image, a, _ in moves)]
        amount = min(most)
        for image, a, b in moves:
            plan[image, a] -= amount
            plan[image, b] += amount
        excess[chain[0]] -= amount
        excess[chain[-1]] += amount
        changed = chain
    return plan


def _offer(source: int, plan: Tensor, scores: Tensor, gains: Tensor, movers: Tensor) -> None:
    """What is gained, at best, by moving some image from one class to each other, and which image that is."""
    held = (plan[:, source] > NOTHING).nonzero().flatten()
    if not len(held):
        gains[source] = -torch.inf
        return
    best, which = (scores[held] - scores[held, source, None]).max(0)
    gains[source], movers[source] = best, held[which].double()


def _best_chain(gains: Tensor, excess: Tensor) -> list[int]:
    """The classes along the chain of moves that gains most, from one with too much to one with too little."""
    reach = torch.where(excess > NOTHING, 0.0, -torch.inf).double()
    before = torch.full((len(excess),), -1)
    front = (excess > NOTHING).nonzero().flatten()  # the classes whose reach is new
    while len(front):
        along, source = (reach[front, None] + gains[front]).max(0)
        better = along > reach + NOTHING
        reach[better], before[better] = along[better], front[source[better]]
        front = better.nonzero().flatten()
    chain = [int(torch.where(excess < -NOTHING, reach, -torch.inf).argmax())]
    while before[chain[0]] >= 0:
        chain.insert(0, int(before[chain[0]]))
    return chain
