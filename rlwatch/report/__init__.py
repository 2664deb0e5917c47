"""What was found, put into words."""
