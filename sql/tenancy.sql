-- Tenants and merchants. See runtime/operations/tenancy.py and catalog.py.

-- name: raise_catalog_version
-- Increments the tenant's catalogue version; the row stays locked until the transaction ends. No row: no such tenant.
UPDATE tenants SET catalog_version = catalog_version + 1 WHERE tenant_id = $1 RETURNING catalog_version

-- name: lock_catalog
-- Locks the tenant like a catalogue change, without a new version: for changes that no play's decision depends on.
-- No row: no such tenant.
SELECT tenant_id FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE

-- name: insert_tenant
-- Creates a tenant.
INSERT INTO tenants (tenant_id, name, status, origins, sender) VALUES ($1, $2, $3, $4, $5)
RETURNING tenant_id AS id, name, status, origins, sender,
       ARRAY(SELECT h.host FROM hosts AS h WHERE h.tenant_id = tenants.tenant_id ORDER BY h.host) AS hosts, unix(created_at) AS created_at

-- name: list_tenants
-- Tenants newest first, after $3; with $1 only that one. $2 is a LIKE pattern of the name.
SELECT tenant_id AS id, name, status, origins, sender,
       ARRAY(SELECT h.host FROM hosts AS h WHERE h.tenant_id = tenants.tenant_id ORDER BY h.host) AS hosts, unix(created_at) AS created_at
FROM tenants
WHERE ($1 = '' OR tenant_id = $1) AND name ILIKE $2 AND ($3::text IS NULL OR tenant_id < $3)
ORDER BY tenant_id DESC
LIMIT $4

-- name: get_tenant
-- No row: no such tenant.
SELECT tenant_id AS id, name, status, origins, sender,
       ARRAY(SELECT h.host FROM hosts AS h WHERE h.tenant_id = tenants.tenant_id ORDER BY h.host) AS hosts, unix(created_at) AS created_at FROM tenants WHERE tenant_id = $1

-- name: update_tenant
-- Writes a tenant; the caller has locked it.
UPDATE tenants SET name = $2, status = $3, origins = $4, sender = $5 WHERE tenant_id = $1
RETURNING tenant_id AS id, name, status, origins, sender,
       ARRAY(SELECT h.host FROM hosts AS h WHERE h.tenant_id = tenants.tenant_id ORDER BY h.host) AS hosts, unix(created_at) AS created_at

-- name: sender
-- The tenant's sender of mails. No row: no such tenant.
SELECT sender FROM tenants WHERE tenant_id = $1

-- name: get_merchant
-- No row: no such merchant of the tenant.
SELECT merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at
FROM merchants WHERE tenant_id = $1 AND merchant_id = $2

-- name: update_merchant
-- Writes a merchant; the caller has locked the tenant.
UPDATE merchants SET name = $3, status = $4 WHERE tenant_id = $1 AND merchant_id = $2
RETURNING merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at

-- name: suspended
-- Which of a tenant ($1), its merchant ($2, '' for none) and its player ($3, '' for none) is suspended:
-- 'tenant', 'merchant' or 'player'. Null: none, or not found.
SELECT CASE
    WHEN EXISTS (SELECT FROM tenants WHERE tenant_id = $1 AND status = 'suspended') THEN 'tenant'
    WHEN EXISTS (SELECT FROM merchants WHERE tenant_id = $1 AND merchant_id = $2 AND status = 'suspended') THEN 'merchant'
    WHEN EXISTS (SELECT FROM players WHERE tenant_id = $1 AND player_id = $3 AND status = 'suspended') THEN 'player'
END

-- name: insert_merchant
-- Creates a merchant. No row: no such tenant.
INSERT INTO merchants (tenant_id, merchant_id, name, status)
SELECT tenant_id, $2, $3, $4 FROM tenants WHERE tenant_id = $1
RETURNING merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at

-- name: list_merchants
-- The tenant's merchants newest first, after $4. $2 is a LIKE pattern of the name,
-- $3 the staff's merchant ('': the tenant): it sees only itself.
SELECT merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at
FROM merchants
WHERE tenant_id = $1 AND name ILIKE $2 AND ($3 = '' OR merchant_id = $3) AND ($4::text IS NULL OR merchant_id < $4)
ORDER BY merchant_id DESC
LIMIT $5

-- name: has_merchant
-- True if the tenant has the merchant. Staff of merchant $3 ('': the tenant's) sees only its own.
SELECT EXISTS (SELECT FROM merchants WHERE tenant_id = $1 AND merchant_id = $2 AND ($3 = '' OR merchant_id = $3))
