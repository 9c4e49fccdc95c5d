"""aftershock: a postmortem becomes a live incident, a proven oracle and a measured challenge."""

__version__ = "0.1.0"
__all__ = ["__version__"]
