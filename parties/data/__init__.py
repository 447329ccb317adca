"""What clients hold: data sets, files, splits and features."""
