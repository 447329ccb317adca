"""Apps written for Flower, run on Tacit's network and clock."""
