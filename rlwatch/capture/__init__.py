"""Live runs to step records: the callback, what it hooks into, and the guard that keeps its faults to itself."""
