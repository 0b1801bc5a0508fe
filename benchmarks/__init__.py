"""Measurements, run by hand: speed as ratios within one run, tables, seeds."""
