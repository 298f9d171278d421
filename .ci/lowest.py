"""Print the lowest versions that pyproject.toml allows, as constraints of pip.

python .ci/lowest.py EXTRA ...: those of the dependencies, and of these extras.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
groups = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in sys.argv[1:])]
for requirement in (one for group in groups for one in group):
    if bound := re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement):  # extras of polyopt itself have none
        print("{}=={}".format(*bound.groups()))
