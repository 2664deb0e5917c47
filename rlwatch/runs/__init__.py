"""What a run is: its records, the names of its metrics, and the directory it is kept in."""
