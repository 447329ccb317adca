"""The parties: the actor that clients and the server share, and the data of clients."""
