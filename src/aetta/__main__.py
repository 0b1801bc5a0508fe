"""`python -m aetta` is the command `aetta`."""

from aetta.cli import main

main()
