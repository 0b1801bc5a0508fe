"""Real images: data sets from their official files, corruptions of any images, and streams that arrange them."""

from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, ParameterSet, corrupt, parameter_set

__all__ = ["CORRUPTIONS", "EXTRA_CORRUPTIONS", "ParameterSet", "corrupt", "parameter_set"]
