"""Watch and repair any PyTorch classifier while it adapts at test time."""
