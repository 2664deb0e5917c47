"""Brings alerts to people."""
