"""Labels by cells: clients cluster their points by noisy sums, and each cell takes the label of its majority."""
