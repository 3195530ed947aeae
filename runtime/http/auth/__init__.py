"""Authentication: tokens, their keys and revocations, and the identity that they carry."""
