"""onnxruntime.capi.onnxruntime_validation: what the package is called."""

from __future__ import annotations

from ..state import VERSION


def get_package_name_and_version_info() -> tuple[str, str, str]:
    return "onnxruntime", VERSION, ""


def check_distro_info() -> None:
    """Nothing depends on the distribution."""
