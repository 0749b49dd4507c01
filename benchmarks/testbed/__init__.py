"""The testbed: hosts with links of a limited rate and a Ray node each, all on this machine."""
