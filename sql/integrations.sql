-- Integrations and their delivery log. See runtime/operations/integrations/.

-- name: insert
-- No row: campaign $4 ('': the whole scope) is unknown or not writable. $8 the staff's merchant ('': the tenant).
INSERT INTO integrations (tenant_id, integration_id, merchant_id, campaign_id, type, events, config, status)
SELECT $1::text, $2, $3, $4::text, $5, $6, $7, $9
WHERE $4 = '' OR EXISTS (SELECT FROM campaigns WHERE tenant_id = $1 AND campaign_id = $4
  AND ($8 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $8, true) AS o)))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: list
-- Newest first. $2 type, $3 campaign, $4 status ('' = any),
-- $5 the staff's merchant ('': the tenant), $6 after this id (NULL: from the first).
SELECT integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
FROM integrations
WHERE tenant_id = $1 AND ($2 = '' OR type = $2) AND ($3 = '' OR campaign_id = $3) AND ($4 = '' OR status = $4)
  AND ($5 = '' OR merchant_id = $5 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o)))
  AND ($6::text IS NULL OR integration_id < $6)
ORDER BY integration_id DESC LIMIT $7

-- name: delete
-- Deletes an integration and its delivery log. $3 the staff's merchant ('': the tenant).
-- No row: not found or not writable.
WITH deleted AS (
    DELETE FROM integrations WHERE tenant_id = $1 AND integration_id = $2
      AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o)))
    RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
),
log_deleted AS (
    DELETE FROM integration_deliveries WHERE tenant_id = $1 AND integration_id IN (SELECT integration_id FROM deleted)
)
SELECT * FROM deleted

-- name: exists
-- $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT 1 FROM integrations WHERE tenant_id = $1 AND integration_id = $2
  AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o)))

-- name: get
-- $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
FROM integrations WHERE tenant_id = $1 AND integration_id = $2
  AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o)))

-- name: lock
-- Locks an integration until the transaction ends. No row: no such integration.
SELECT integration_id FROM integrations WHERE tenant_id = $1 AND integration_id = $2 FOR UPDATE

-- name: update
-- $3 campaign, $4 events, $5 config, $6 status, $7 the staff's merchant; the caller has locked the row.
-- Events from while it was paused are not delivered. No row: the campaign is unknown or not writable, or a merchant's
-- staff clears the campaign of an integration of the tenant, which would then receive all merchants' events.
UPDATE integrations SET campaign_id = $3::text, events = $4, config = $5, status = $6,
    active_since = CASE WHEN status = 'paused' AND $6 = 'active' THEN now() ELSE active_since END
WHERE tenant_id = $1 AND integration_id = $2
  AND (($3::text = '' AND ($7 = '' OR merchant_id = $7)) OR $3::text = campaign_id OR EXISTS (SELECT FROM campaigns WHERE tenant_id = $1 AND campaign_id = $3
    AND ($7 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $7, true) AS o))))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: rotate
-- Replaces the config with its secrets; the caller has locked the row. $3 the config, $4 the staff's merchant ('': the
-- tenant). No row: not found or not writable.
UPDATE integrations SET config = $3
WHERE tenant_id = $1 AND integration_id = $2
  AND ($4 = '' OR merchant_id = $4 OR campaign_id IN (SELECT o FROM campaigns_of($1, $4, true) AS o))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: active
-- A tenant's active integrations.
SELECT integration_id, merchant_id, campaign_id, type, events, config,
       extract(epoch FROM active_since)::float8 AS active_since
FROM integrations WHERE tenant_id = $1 AND status = 'active'

-- name: included
-- The entry of player $3, or of the player into whom the guest was merged, in campaign $2, with its contacts or else those
-- of the login. In a merchant's campaign without those of the login: the merchant's staff can enter any player of the tenant.
-- No row: no entry, or consent $4 is not in force.
SELECT e.fields,
       coalesce(entry_contact(c.entry, e.fields, 'email'), (
           SELECT min(o.value) FROM contacts AS o
           WHERE o.tenant_id = $1 AND o.player_id = e.player_id AND o.type = 'email' AND c.merchant_id = '')) AS email,
       coalesce(entry_contact(c.entry, e.fields, 'phone'), (
           SELECT min(o.value) FROM contacts AS o
           WHERE o.tenant_id = $1 AND o.player_id = e.player_id AND o.type = 'phone' AND c.merchant_id = '')) AS phone
FROM entries AS e JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE e.tenant_id = $1 AND e.campaign_id = $2
  AND e.player_id = coalesce((SELECT p.merged_into FROM players AS p WHERE p.tenant_id = $1 AND p.player_id = $3), $3)
  AND consent_in_force($4, e.given, consent_tokens(c.entry))

-- name: consents
-- The ids of the consents that campaign $2's entry form asks for.
SELECT ARRAY(SELECT k ->> 'id' FROM jsonb_array_elements(entry -> 'consents') AS k)
FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2

-- name: campaign_merchant
-- The merchant of a campaign. $3 the staff's merchant ('': the tenant). No row: not found or not writable.
SELECT merchant_id FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))

-- name: record_deliveries
-- Records deliveries, one row per integration and event. The latest result wins, except that 'delivered' is final. The
-- stored event is kept: a redelivered copy may still contain data erased since.
-- Arrays with a position per event, sorted by the log's key, in which order every such statement locks the rows; then the
-- seconds before each next attempt, by attempts made ($14), and the seconds after which an event is dead ($15).
-- KEY SHARE on the integrations: none is deleted meanwhile, and deleted ones get no rows.
WITH there AS (
    SELECT integration_id FROM integrations WHERE tenant_id = $1 AND integration_id = ANY($2::text[])
    ORDER BY integration_id FOR KEY SHARE
)
INSERT INTO integration_deliveries AS d (tenant_id, integration_id, delivery_id, event_id, event_type, status, attempts,
                                         event, http_status, error, duration_ms, answer, next_attempt_at)
SELECT $1::text, n.integration_id, n.delivery_id, n.event_id, n.event_type, n.status, n.attempts, n.event,
       n.http_status, n.error, n.duration_ms, n.answer, CASE WHEN n.status = 'retry'
           THEN now() + make_interval(secs => greatest(($14::float8[])[greatest(n.attempts, 1)], n.pause_seconds)) END
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::json[], $9::integer[],
            $10::text[], $11::integer[], $12::float8[], $13::text[])
    AS n (integration_id, delivery_id, event_id, event_type, status, attempts, event, http_status, error, duration_ms,
          pause_seconds, answer)
JOIN there USING (integration_id)
ON CONFLICT (tenant_id, integration_id, event_id) DO UPDATE SET
    (status, event, next_attempt_at) = (
        SELECT CASE WHEN o.is_over THEN 'dead' ELSE excluded.status END,
               coalesce(d.event, excluded.event),
               CASE WHEN NOT o.is_over THEN excluded.next_attempt_at END
        FROM (SELECT excluded.status = 'retry' AND d.created_at < now() - make_interval(secs => $15) AS is_over) AS o
    ),
    event_type = excluded.event_type, attempts = excluded.attempts, http_status = excluded.http_status, error = excluded.error,
    duration_ms = excluded.duration_ms, answer = excluded.answer, tried_at = now()
    WHERE d.status <> 'delivered'

-- name: erased
-- When players $2 were erased (unix seconds; 0: never). FOR SHARE: waits for an erasure in progress, and lets none begin
-- before the deliveries about to be recorded are visible to it.
SELECT player_id, unix(erased_at) AS erased_at FROM players WHERE tenant_id = $1 AND player_id = ANY($2::text[])
ORDER BY player_id FOR SHARE

-- name: delivered
-- Integrations that already have a delivery, in any state, of events $2.
SELECT integration_id, event_id FROM integration_deliveries WHERE tenant_id = $1 AND event_id = ANY($2::text[])
  AND integration_id IN (SELECT integration_id FROM integrations WHERE tenant_id = $1)

-- name: tenants_with_retries
-- Tenants with a due retry: one index probe per integration, with any backlog.
SELECT DISTINCT i.tenant_id FROM integrations AS i WHERE i.status = 'active' AND EXISTS (
    SELECT FROM integration_deliveries AS d
    WHERE d.tenant_id = i.tenant_id AND d.integration_id = i.integration_id AND d.status = 'retry'
      AND d.next_attempt_at <= now()
)

-- name: end_retries
-- Ends retries that were due an hour ago, of events older than $4 seconds, with error $5. Checks at most the $3 longest
-- waiting of each integration ($2); none of one resumed since: what was due in its pause could not be attempted.
WITH overdue AS MATERIALIZED (
    SELECT o.integration_id, o.delivery_id
    FROM integrations AS r
    CROSS JOIN LATERAL (
        SELECT o.integration_id, o.delivery_id, o.created_at FROM integration_deliveries AS o
        WHERE o.tenant_id = $1 AND o.integration_id = r.integration_id AND o.status = 'retry'
          AND o.next_attempt_at <= now() - interval '1 hour'
        ORDER BY o.next_attempt_at LIMIT $3
    ) AS o
    WHERE r.tenant_id = $1 AND r.integration_id = ANY($2::text[]) AND r.active_since <= now() - interval '1 hour'
      AND o.created_at < now() - make_interval(secs => $4)
),
locked AS MATERIALIZED (
    SELECT d.integration_id, d.delivery_id
    FROM overdue AS o
    JOIN integration_deliveries AS d USING (integration_id, delivery_id)
    WHERE d.tenant_id = $1 AND d.status = 'retry' AND d.next_attempt_at <= now() - interval '1 hour'
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE integration_deliveries AS d SET status = 'dead', next_attempt_at = NULL, error = $5
FROM locked AS l
WHERE d.tenant_id = $1 AND d.integration_id = l.integration_id AND d.delivery_id = l.delivery_id

-- name: lease_retries
-- Leases due retries for $4 seconds: of each integration ($2) at most $3, the longest waiting. MATERIALIZED: joined to the
-- UPDATE directly, the subquery could run again for each row and skip the rows that it has just locked.
WITH due AS MATERIALIZED (
    SELECT o.integration_id, o.delivery_id
    FROM unnest($2::text[], $3::bigint[]) AS r (integration_id, room)
    CROSS JOIN LATERAL (
        SELECT o.integration_id, o.delivery_id FROM integration_deliveries AS o
        WHERE o.tenant_id = $1 AND o.integration_id = r.integration_id AND o.status = 'retry' AND o.next_attempt_at <= now()
        ORDER BY o.next_attempt_at LIMIT r.room FOR UPDATE SKIP LOCKED
    ) AS o
)
UPDATE integration_deliveries AS d SET next_attempt_at = now() + make_interval(secs => $4)
FROM due
WHERE d.tenant_id = $1 AND d.integration_id = due.integration_id AND d.delivery_id = due.delivery_id
RETURNING d.integration_id, d.event_id, d.event_type, d.attempts, d.event

-- name: prune_deliveries
-- Keeps the newest $3 of an integration's deliveries, all retries, and all whose events may be published again: those of
-- the last ten minutes, and those since the backfill's watermark. Of messages to players, which are their history, only
-- skipped ones are deleted. Checks at most the $4 oldest: if they must stay, so must the newer ones. The condition on $2
-- is evaluated once: one on each row would read a campaign's whole log.
WITH published AS (
    SELECT coalesce((SELECT backfilled_until FROM event_marks WHERE tenant_id = $1), now()) - interval '10 minutes' AS until
),
skipped AS (
    DELETE FROM integration_deliveries
    WHERE tenant_id = $1 AND integration_id = $2 AND status = 'skipped' AND delivery_id = ANY (ARRAY(
        SELECT o.delivery_id FROM (
            SELECT delivery_id, created_at FROM integration_deliveries
            WHERE tenant_id = $1 AND integration_id = $2 AND status = 'skipped' AND delivery_id < (
                SELECT delivery_id FROM integration_deliveries
                WHERE tenant_id = $1 AND integration_id = $2 AND status = 'skipped'
                ORDER BY delivery_id DESC OFFSET $3 LIMIT 1)
            ORDER BY delivery_id LIMIT $4
        ) AS o WHERE o.created_at < (SELECT until FROM published)
    ))
)
DELETE FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND status <> 'retry' AND delivery_id = ANY (ARRAY(
    SELECT o.delivery_id FROM (
        SELECT delivery_id, created_at FROM integration_deliveries
        WHERE tenant_id = $1 AND integration_id = $2 AND status <> 'retry' AND NOT starts_with($2, 'messages_')
          AND delivery_id < (
            SELECT delivery_id FROM integration_deliveries WHERE tenant_id = $1 AND integration_id = $2
            ORDER BY delivery_id DESC OFFSET $3 LIMIT 1)
        ORDER BY delivery_id LIMIT $4
    ) AS o WHERE o.created_at < (SELECT until FROM published)
))

-- name: list_deliveries
-- An integration's deliveries, newest first, after $4. $3 the staff's merchant ('': the tenant): it
-- sees only events of its own campaigns, since the tenant's integrations receive those of all merchants.
SELECT delivery_id, integration_id, event_id, event_type, status, attempts, http_status, error, duration_ms, event,
       answer, unix(next_attempt_at) AS next_attempt_at, unix(created_at) AS created_at
FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND ($3 = '' OR event ->> 'merchant_id' = $3)
  AND ($4::text IS NULL OR delivery_id < $4)
ORDER BY delivery_id DESC LIMIT $5

-- name: delivery
-- One of an integration's deliveries with its event. $4 the staff's merchant ('': the tenant).
-- No row: no such delivery, or another merchant's event.
SELECT status, attempts, event, unix(created_at) AS created_at FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND delivery_id = $3 AND ($4 = '' OR event ->> 'merchant_id' = $4)
