"""The structs of a scenario's tables, and the table of their keys."""
