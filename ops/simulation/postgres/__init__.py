"""A model of Postgres for the simulation: what the named statements guarantee at READ COMMITTED, and nothing more.

    server = ModelServer(clock=..., random=Random(seed))      # the state; it outlives every process
    database = ModelDatabase(server, size=8, acquire_seconds=1.0, statement_seconds=1.0, network=...)

Rows are in versions (tables.py), read from the schema (schema.py); transactions wait for each other's rows
(transactions.py); statements are functions (statements/) over a few words (vocabulary.py). The real Postgres and this
are held equal by tests/simulation/test_model_equality.py. A statement without a model raises NotModelled.
"""

from importlib import import_module
from pathlib import Path

from ops.simulation.postgres.client import ModelDatabase
from ops.simulation.postgres.server import ModelServer
from ops.simulation.postgres.vocabulary import MODELS, NotModelled

__all__ = ["MODELS", "ModelDatabase", "ModelServer", "NotModelled"]

for _module in sorted((Path(__file__).parent / "statements").glob("*.py")):
    import_module(f"{__name__}.statements.{_module.stem}")
