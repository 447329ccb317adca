"""What a scenario may say: the structs of its tables, and the table of their keys."""
