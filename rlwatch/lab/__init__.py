"""Small real TRL runs on this CPU that fail on purpose."""
