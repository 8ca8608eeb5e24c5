"""Loops over arrays that every compiled backend shares."""
