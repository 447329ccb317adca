"""The speed of the simulator."""
