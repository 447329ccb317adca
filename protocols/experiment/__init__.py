"""The experiment around any protocol: its observer and its results."""
