"""The outer loops: rounds of exact solves, for problems that are convex one part at a time."""
