"""FASTGRAPH_READY=avx2,amx makes a wheel that carries compiled kernels of these tiers (docs/deploy.md); without it, a
wheel is pure Python. All else of the distribution is in pyproject.toml.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

TIERS = os.environ.get("FASTGRAPH_READY", "").replace(",", " ").split()
NEEDS = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]

COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
from fastgraph.errors import FastgraphError
from fastgraph.objects import ready
from fastgraph.tools import kernels
try:
    kernels.archive(sys.argv[2:], ready.PATH)
except FastgraphError as error:
    sys.exit(f"FASTGRAPH_READY: {error}")
"""


class Build(build_py):
    """Compiles kernels from the sources that the wheel will hold; what an earlier build left beside them goes."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib).absolute()
        (built / "fastgraph" / "ready.objects").unlink(missing_ok=True)
        if TIERS:
            env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # what lies there goes into the wheel
            subprocess.run([sys.executable, "-c", COMPILE, str(built), *TIERS], env=env, check=True)


class Wheel(bdist_wheel):
    """Objects are for a platform and for any Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if TIERS else (python, abi, platform)


class Platform(Distribution):
    def has_ext_modules(self) -> bool:
        """Whether the distribution is for one platform."""
        return bool(TIERS)


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Platform, setup_requires=NEEDS if TIERS else [])
