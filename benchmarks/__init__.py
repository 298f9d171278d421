"""Races and tables: every figure quoted anywhere comes from a command in here."""
