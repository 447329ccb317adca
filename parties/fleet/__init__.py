"""The fleet: the network access, the machine and the uptimes of each party of a run."""
