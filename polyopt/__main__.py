"""``python -m polyopt`` is the command ``polyopt``."""

from polyopt.cli import main

if __name__ == "__main__":
    main()
