"""Experiments as data: cells, sweeps, tables and figures of published results, and of our own."""
