"""Small real TRL runs on this CPU that fail on purpose: the failure room and the length bias."""
