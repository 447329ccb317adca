"""The protocols, one in each file, with all roles of each side under the table of its messages."""
