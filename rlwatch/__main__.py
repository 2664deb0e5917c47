"""`python -m rlwatch` is the command `rlwatch`."""

from rlwatch.cli import main

main()
