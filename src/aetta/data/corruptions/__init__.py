"""The fifteen corruptions of CIFAR-10-C and ImageNet-C, and the four extra ones, for any images.

Hendrycks and Dietterich, ICLR 2019, https://arxiv.org/abs/1903.12261. Written from the published description and
parameters; batched on any device; and repeatable: what is random about an image depends on the seed, the corruption and
the image's index alone.
"""

from aetta.data.corruptions.apply import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
from aetta.data.corruptions.parameters import ParameterSet, parameter_set

__all__ = ["CORRUPTIONS", "EXTRA_CORRUPTIONS", "ParameterSet", "corrupt", "parameter_set"]
