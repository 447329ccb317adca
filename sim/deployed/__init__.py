"""A world of operating-system processes: the same parties over TCP and TLS, on the real clock."""
