"""What is printed, on a terminal and into a file alike."""
