-- Tenants and merchants. See runtime/operations/tenancy.py and catalog.py.

-- name: raise_catalog_version
-- The tenant's next catalogue version; its row stays locked until the transaction ends.
-- No row: there is no such tenant.
UPDATE tenants SET catalog_version = catalog_version + 1 WHERE tenant_id = $1 RETURNING catalog_version

-- name: hold_catalog
-- Takes the turn of who changes the tenant's catalogue, and leaves its version: no play is decided by what is changed.
-- No row: there is no such tenant.
SELECT tenant_id FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE

-- name: insert_tenant
-- Makes a tenant.
INSERT INTO tenants (tenant_id, name, status, origins) VALUES ($1, $2, $3, $4)
RETURNING tenant_id AS id, name, status, origins, unix(created_at) AS created_at

-- name: list_tenants
-- Tenants newest first, after $3; with $1 only that one. $2 is a LIKE pattern of the name.
SELECT tenant_id AS id, name, status, origins, unix(created_at) AS created_at
FROM tenants
WHERE ($1 = '' OR tenant_id = $1) AND name ILIKE $2 AND ($3::text IS NULL OR tenant_id < $3)
ORDER BY tenant_id DESC
LIMIT $4

-- name: get_tenant
-- No row: there is no such tenant.
SELECT tenant_id AS id, name, status, origins, unix(created_at) AS created_at FROM tenants WHERE tenant_id = $1

-- name: update_tenant
-- Writes a tenant; the caller holds its lock.
UPDATE tenants SET name = $2, status = $3, origins = $4 WHERE tenant_id = $1
RETURNING tenant_id AS id, name, status, origins, unix(created_at) AS created_at

-- name: get_merchant
-- No row: the tenant has no such merchant.
SELECT merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at
FROM merchants WHERE tenant_id = $1 AND merchant_id = $2

-- name: update_merchant
-- Writes a merchant; the caller holds the tenant's lock.
UPDATE merchants SET name = $3, status = $4 WHERE tenant_id = $1 AND merchant_id = $2
RETURNING merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at

-- name: suspended
-- What of a tenant ($1), one of its merchants ($2, '' for none) and of its players ($3, '' for none) is suspended:
-- 'tenant', 'merchant' or 'player'. Null: none, also where there is no such thing.
SELECT CASE
    WHEN EXISTS (SELECT FROM tenants WHERE tenant_id = $1 AND status = 'suspended') THEN 'tenant'
    WHEN EXISTS (SELECT FROM merchants WHERE tenant_id = $1 AND merchant_id = $2 AND status = 'suspended') THEN 'merchant'
    WHEN EXISTS (SELECT FROM players WHERE tenant_id = $1 AND player_id = $3 AND status = 'suspended') THEN 'player'
END

-- name: insert_merchant
-- Makes a merchant. No row: there is no such tenant.
INSERT INTO merchants (tenant_id, merchant_id, name, status)
SELECT tenant_id, $2, $3, $4 FROM tenants WHERE tenant_id = $1
RETURNING merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at

-- name: list_merchants
-- The tenant's merchants newest first, after $4. $2 is a LIKE pattern of the name,
-- $3 the merchant whose staff asks ('' the tenant's own): it sees itself.
SELECT merchant_id AS id, tenant_id, name, status, unix(created_at) AS created_at
FROM merchants
WHERE tenant_id = $1 AND name ILIKE $2 AND ($3 = '' OR merchant_id = $3) AND ($4::text IS NULL OR merchant_id < $4)
ORDER BY merchant_id DESC
LIMIT $5

-- name: has_merchant
-- True where the tenant has the merchant. To staff of merchant $3 ('' the tenant's own) there is no other.
SELECT EXISTS (SELECT FROM merchants WHERE tenant_id = $1 AND merchant_id = $2 AND ($3 = '' OR merchant_id = $3))
