"""The parts of XCLP, each in a file with all roles under the table of its messages."""
