"""See and understand Linux dynamic ftrace: a tracing console over an emulated kernel."""

__version__ = "0.2.0"
