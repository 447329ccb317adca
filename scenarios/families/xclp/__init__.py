"""XCLP by itself."""
