"""The durable store (Postgres, the only truth), the ephemeral one (Valkey, a convenience), and what they keep."""
