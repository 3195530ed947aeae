"""Embedded PostgreSQL and Valkey: real servers from wheels, for `ops/up`, `ops/bench` and the tests.

Each is a child process on a free port of 127.0.0.1, behind a password kept beside its data.

base        any of them: its life, its files, what starts a child process
postgres    PostgreSQL
valkey      Valkey
cluster     Valkey as a cluster of three, whose slots may move
embedded    both over one directory
"""
