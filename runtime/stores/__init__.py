"""The durable store (Postgres, authoritative), the ephemeral store (Valkey, may lose data), and access to both."""
