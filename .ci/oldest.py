"""Print the least version of everything that `pyproject.toml` names, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for need in chain(project["dependencies"], *project["optional-dependencies"].values()):
    # an extra of the library itself has its needs in the list, too
    if not need.startswith(f"{project['name']}["):
        name, least = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<[\d.]+)?", need).groups()
        print(f"{name}=={least}")
