"""Scenario files as tests: the plugin of pytest, and the annotations of continuous integration."""
