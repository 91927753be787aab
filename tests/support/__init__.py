"""Helpers of several test modules: exact values, new interpreters, optional packages, random calls."""
