"""The versions of other trainers with which their integrations are tested."""

from importlib import metadata

TESTED = {"trl": ("trl", "1.16"), "verl": ("verl", "0.9"), "tunix": ("google-tunix", "0.1.7")}
"""Extra -> package, and the beginning of its version."""


def require_version(extra: str) -> None:
    """Raises ValueError unless the package of an extra is installed in a version that was tested."""
    package, tested = TESTED[extra]
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ValueError(f"{package} is not installed: pip install 'ipsrl[{extra}]'") from None
    if not f"{installed}.".startswith(f"{tested}."):
        raise ValueError(
            f"{package} {installed} is installed, and this integration is tested with {tested}: "
            f"pip install 'ipsrl[{extra}]'"
        )
