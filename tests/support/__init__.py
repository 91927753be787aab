"""What several test modules use: exact values, interpreters of their own, optional packages, random calls."""
