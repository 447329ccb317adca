"""Many runs of one scenario, and tables of papers filled in by such runs."""
