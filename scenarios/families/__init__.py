"""The families of protocols: how each is built from a scenario, checked and observed."""
