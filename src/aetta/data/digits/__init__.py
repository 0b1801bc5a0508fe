"""Real handwritten digits that need no download, and a small network that reads them: what the demo is made of.

The digits are the 1,797 of the UCI repository that scikit-learn carries (Alpaydin & Kaynak, 1998,
https://doi.org/10.24432/C50P49), 8x8 pixels in 17 grey levels; here as blue-grey ink on paper, 32x32.
"""

from aetta.data.digits.images import digits
from aetta.data.digits.network import digits_model

__all__ = ["digits", "digits_model"]
