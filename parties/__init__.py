"""Who takes part: the actor that clients and the server share, and the data they hold."""
