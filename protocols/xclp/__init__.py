"""XCLP: its parts, each a file with all roles under the table of its messages."""
