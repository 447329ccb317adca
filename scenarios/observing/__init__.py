"""What is looked at in a run as no party could, and what a run is built of."""
