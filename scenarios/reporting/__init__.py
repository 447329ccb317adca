"""Says what has happened in runs, on a terminal and as a page."""
