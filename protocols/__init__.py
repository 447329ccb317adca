"""The protocols, one a file, with all roles of each side by side under the table of its messages."""
