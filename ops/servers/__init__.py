"""Embedded PostgreSQL and Valkey: real servers from wheels, for `ops/up`, `ops/bench` and the tests.

Each is a child process on a free port of 127.0.0.1, with a password stored beside its data.

base        the common part: life cycle, files, child processes
postgres    PostgreSQL
valkey      Valkey
cluster     a Valkey cluster of three nodes with movable slots
embedded    PostgreSQL and Valkey in one directory
"""
