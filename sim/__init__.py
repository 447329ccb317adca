"""The simulated world: one virtual clock, links, the cost of computing, bytes on the wire and the trace."""
