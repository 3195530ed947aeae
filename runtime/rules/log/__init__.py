"""The Merkle log of a tenant: entries, tree, tiles, proofs and signed checkpoints. Pure functions, no I/O.

The formats are public: RFC 6962 for hashes and proofs, C2SP tlog-tiles for tiles and entry bundles, signed-note and
tlog-checkpoint for the signed root. `entries` describes the logged rows.
"""
