"""The simulated world: one virtual clock, links, the cost of computing, bytes on the wire, the trace."""
