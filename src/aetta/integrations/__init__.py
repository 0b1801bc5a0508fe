"""`aetta` inside systems that others run. Each module needs its system, and says which extra brings it."""
