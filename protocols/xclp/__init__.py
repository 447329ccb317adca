"""The parts of XCLP, each a file with all roles under the table of its messages."""
