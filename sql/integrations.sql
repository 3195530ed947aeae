-- Integrations: who is told of events, and what became of each telling. See runtime/operations/integrations.py.

-- name: insert
-- No row: the campaign ($4, '' for the whole scope) is none to write in.
-- $8 the merchant whose staff asks ('' the tenant's own).
INSERT INTO integrations (tenant_id, integration_id, merchant_id, campaign_id, type, events, config)
SELECT $1::text, $2, $3, $4::text, $5, $6, $7
WHERE $4 = '' OR EXISTS (SELECT FROM campaigns WHERE tenant_id = $1 AND campaign_id = $4
  AND ($8 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $8, true) AS o)))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: list
-- Newest first. $2 type, $3 campaign, $4 status ('' = any),
-- $5 the merchant whose staff asks ('' the tenant's own), $6 after this id (NULL: from the first).
SELECT integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
FROM integrations
WHERE tenant_id = $1 AND ($2 = '' OR type = $2) AND ($3 = '' OR campaign_id = $3) AND ($4 = '' OR status = $4)
  AND ($5 = '' OR merchant_id = $5 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o)))
  AND ($6::text IS NULL OR integration_id < $6)
ORDER BY integration_id DESC LIMIT $7

-- name: delete
-- $3 the merchant whose staff asks ('' the tenant's own). No row: there is none that it may write. Its delivery log goes with it.
WITH gone AS (
    DELETE FROM integrations WHERE tenant_id = $1 AND integration_id = $2
      AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o)))
    RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
),
log_gone AS (
    DELETE FROM integration_deliveries WHERE tenant_id = $1 AND integration_id IN (SELECT integration_id FROM gone)
)
SELECT * FROM gone

-- name: exists
-- $3 the merchant whose staff asks ('' the tenant's own), $4 whether to write. No row: there is none that may be.
SELECT 1 FROM integrations WHERE tenant_id = $1 AND integration_id = $2
  AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o)))

-- name: active
-- Those of a tenant that are told of events.
SELECT integration_id, merchant_id, campaign_id, type, events, config
FROM integrations WHERE tenant_id = $1 AND status = 'active'

-- name: campaign_merchant
-- Whose a campaign is. $3 the merchant whose staff asks ('' the tenant's own).
-- No row: there is none that it may write.
SELECT merchant_id FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))

-- name: note_deliveries
-- Adds to the delivery logs. Arrays of a place per delivery; of integrations that are gone nothing is kept.
INSERT INTO integration_deliveries (tenant_id, integration_id, delivery_id, event_id, event_type, delivered,
                                    http_status, error, duration_ms)
SELECT $1::text, n.*
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::integer[], $8::text[], $9::integer[])
    AS n (integration_id, delivery_id, event_id, event_type, delivered, http_status, error, duration_ms)
WHERE EXISTS (SELECT FROM integrations AS i WHERE i.tenant_id = $1 AND i.integration_id = n.integration_id)

-- name: prune_deliveries
-- Keeps the newest $3 of an integration's deliveries.
DELETE FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND delivery_id < (
    SELECT delivery_id FROM integration_deliveries WHERE tenant_id = $1 AND integration_id = $2
    ORDER BY delivery_id DESC OFFSET $3 LIMIT 1
)

-- name: list_deliveries
-- An integration's deliveries, the newest first. $3 after this id (NULL: from the first).
SELECT delivery_id, integration_id, event_id, event_type, delivered, http_status, error, duration_ms,
       unix(created_at) AS created_at
FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND ($3::text IS NULL OR delivery_id < $3)
ORDER BY delivery_id DESC LIMIT $4
