"""The experiment around a protocol: its observer and its results."""
