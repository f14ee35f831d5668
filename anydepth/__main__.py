"""`python -m anydepth` is the command `anydepth`."""

from anydepth.cli.main import main

main()
