"""Labels by cells: clients cluster their points by sums with noise, and each cell takes the label of its majority."""
