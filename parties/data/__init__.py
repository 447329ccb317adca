"""Data of clients: data sets, files, splits and features."""
