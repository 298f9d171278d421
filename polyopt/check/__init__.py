"""Certificates that a stranger can check: ``check.py`` stands alone, and FORMAT.md says what it reads."""
