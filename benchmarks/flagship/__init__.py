"""What `docs/estimators.md` reports on a GPU: development, acceptance and test of the flagship beside its baselines."""
