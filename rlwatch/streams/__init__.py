"""Mirrors of the metrics in other tools."""
