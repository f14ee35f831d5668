"""`python -m anydepth` is the command `anydepth`."""

from anydepth.cli import main

main()
