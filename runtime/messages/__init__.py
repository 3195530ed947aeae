"""The wire types: generated from rpc/game.proto by ops/generate.py, gathered under one name."""

from .game.v1 import *  # noqa: F403
from .game.v1 import __all__ as __all__
