"""Networks that clients train, and the local update that training methods extend. Importing it needs no torch."""
