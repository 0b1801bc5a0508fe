"""A model on the network: answers first, digested behind them, watched, controlled, and never lost.

It needs an extra: pip install 'aetta[serve]'
"""

from aetta.errors import MissingExtra

try:
    import prometheus_client as _prometheus_client  # noqa: F401
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtra.of("starlette, uvicorn and prometheus-client", "serve") from error

from aetta.serving.app import create_app
from aetta.serving.engine import Engine
from aetta.serving.server import run
from aetta.serving.settings import Limits, Settings

__all__ = ["Engine", "Limits", "Settings", "create_app", "run"]
