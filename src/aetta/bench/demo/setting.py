"""All that decides the numbers of a demo run, in one place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUICK", "Setting"]

CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "glass_blur",
    "motion_blur",
    "snow",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One demo. The learning rate is meant to be far too high, so that the collapse comes within a minute.

    corruptions: The domains, in the order in which they come.
    severity: Of the corruptions, 1 to 5.
    rounds: How often the domains come round.
    batches: How many batches each domain lasts.
    batch_size: Images in a batch.
    learning_rate: Of TENT's Adam.
    seed: Of the images, their order, the corruptions and the dropout masks.
    """

    corruptions: tuple[str, ...] = CORRUPTIONS
    severity: int = 5
    rounds: int = 2
    batches: int = 6
    batch_size: int = 32
    learning_rate: float = 0.15
    seed: int = 0

    @property
    def steps(self) -> int:
        """How many batches the whole stream has."""
        return len(self.corruptions) * self.rounds * self.batches


QUICK = Setting(rounds=1, batches=4)
"""A short demo, that still collapses."""
