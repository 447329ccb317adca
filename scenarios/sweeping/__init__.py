"""Many runs of one scenario, and tables of papers made of them."""
