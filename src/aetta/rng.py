"""Randomness that is given, never taken: each stochastic object owns an `Rng`; torch's global one is left alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Rng", "threshold"]


class Rng:
    """A seeded source of random tensors and numbers, on whatever device they are asked for.

    seed: The same seed gives the same draws, on the same kind of device.

    >>> Rng(0).integer(10) == Rng(0).integer(10)
    True
    >>> Rng(0).child("masks", 3).seed == Rng(0).child("masks", 4).seed
    False
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = int(seed)
        self._generators: dict[str, torch.Generator] = {}

    def __repr__(self) -> str:
        return f"Rng({self.seed})"

    def child(self, *key: str | int) -> Rng:
        """Another `Rng` that depends on this one's seed and the key alone, not on what was drawn before."""
        text = "/".join([str(self.seed), *map(str, key)])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return Rng(int.from_bytes(digest, "little") >> 1)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """The torch generator for a device, made and seeded when it is first needed."""
        name = str(torch.device(device))
        if name not in self._generators:
            self._generators[name] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[name]

    def uniform_like(self, tensor: Tensor) -> Tensor:
        """Uniform numbers in [0, 1), shaped like the tensor, on its device; drawn in float32."""
        return torch.rand(tensor.shape, generator=self.generator(tensor.device), device=tensor.device)

    def keep_(self, mask: Tensor, share: float) -> Tensor:
        """Fill a boolean tensor with True for a share of its elements, each on its own; return it.

        Sixteen random bits decide each element, so the share is rounded to 1 / 65536: a quarter of the draws.
        """
        words = torch.empty(-(-mask.numel() // 4), dtype=torch.int64, device=mask.device)
        words.random_(-(2**63), None, generator=self.generator(mask.device))
        bits = words.view(torch.int16)[: mask.numel()].view(mask.shape)
        return torch.lt(bits, threshold(share), out=mask) if share < 1 else mask.fill_(True)

    def normal_like(self, tensor: Tensor) -> Tensor:
        """Standard normal numbers, shaped like the tensor, with its device and dtype."""
        return torch.randn(tensor.shape, generator=self.generator(tensor.device), device=tensor.device).to(tensor.dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, *, size: int | None = None) -> Tensor:
        """Uniform numbers in [low, high) on the CPU: one, or a vector of `size`."""
        shape = () if size is None else (size,)
        return low + (high - low) * torch.rand(shape, generator=self.generator(), dtype=torch.float64)

    def number(self, low: float = 0.0, high: float = 1.0) -> float:
        """One uniform number in [low, high)."""
        return float(self.uniform(low, high))

    def integer(self, high: int) -> int:
        """One integer in [0, high)."""
        return int(torch.randint(high, (), generator=self.generator()))

    def permutation(self, n: int) -> Tensor:
        """The integers 0 to n - 1 in random order, on the CPU."""
        return torch.randperm(n, generator=self.generator())

    def choice(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        return items[self.integer(len(items))]

    def state_dict(self) -> dict[str, Any]:
        """The seed, and the place each generator has reached."""
        states = {name: generator.get_state().clone() for name, generator in self._generators.items()}
        return {"seed": self.seed, "generators": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a place `state_dict` told of."""
        self.seed = int(state["seed"])
        self._generators = {}
        for name, value in state["generators"].items():
            self.generator(name).set_state(value.cpu())


def threshold(share: float) -> int:
    """Sixteen random bits, as a signed number, lie below it with this probability, rounded to 1 / 65536.

    >>> threshold(0.0), threshold(0.5), threshold(1.0)
    (-32768, 0, 32768)
    """
    return round(share * 2**16) - 2**15
