-- Integrations: who is told of events, and what became of each telling. See runtime/operations/integrations/.

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

-- name: get
-- $3 the merchant whose staff asks ('' the tenant's own), $4 whether to write. No row: there is none that may be.
SELECT integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at
FROM integrations WHERE tenant_id = $1 AND integration_id = $2
  AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o)))

-- name: lock
-- Holds an integration as it is until the transaction ends. No row: no such integration.
SELECT integration_id FROM integrations WHERE tenant_id = $1 AND integration_id = $2 FOR UPDATE

-- name: update
-- $3 campaign, $4 events, $5 config, $6 status, $7 the merchant whose staff asks; the caller holds the row's lock.
-- What happened while it was paused is not told. No row: the campaign is none to write in, or the whole scope is
-- asked for by a merchant's staff of a row that is not the merchant's: without a campaign it would hear of everybody.
UPDATE integrations SET campaign_id = $3::text, events = $4, config = $5, status = $6,
    heard_from = CASE WHEN status = 'paused' AND $6 = 'active' THEN now() ELSE heard_from END
WHERE tenant_id = $1 AND integration_id = $2
  AND (($3::text = '' AND ($7 = '' OR merchant_id = $7)) OR $3::text = campaign_id OR EXISTS (SELECT FROM campaigns WHERE tenant_id = $1 AND campaign_id = $3
    AND ($7 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $7, true) AS o))))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: rotate
-- Sets what an integration sends with; the caller holds it. $3 the config, $4 the merchant whose staff asks ('' the
-- tenant's own). No row: there is none that it may write.
UPDATE integrations SET config = $3
WHERE tenant_id = $1 AND integration_id = $2
  AND ($4 = '' OR merchant_id = $4 OR campaign_id IN (SELECT o FROM campaigns_of($1, $4, true) AS o))
RETURNING integration_id, merchant_id, campaign_id, type, events, config, status, unix(created_at) AS created_at

-- name: active
-- Those of a tenant that are told of events.
SELECT integration_id, merchant_id, campaign_id, type, events, config,
       extract(epoch FROM heard_from)::float8 AS heard_from
FROM integrations WHERE tenant_id = $1 AND status = 'active'

-- name: campaign_merchant
-- Whose a campaign is. $3 the merchant whose staff asks ('' the tenant's own).
-- No row: there is none that it may write.
SELECT merchant_id FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))

-- name: note_deliveries
-- What became of events at integrations, a row each: the newest of what is said, but what was delivered stays so, and
-- the event is the one that the row has: whoever is told of it a second time may hold what was erased since.
-- Arrays of a place per event, in the order of the log's rows, in which every such statement locks them; then the
-- seconds before each next try, by the number of attempts made, and for how many seconds an event is tried at all.
-- Of integrations that are gone nothing is kept: those that are there are held, so that none goes meanwhile.
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
    attempts = excluded.attempts, http_status = excluded.http_status, error = excluded.error,
    duration_ms = excluded.duration_ms, answer = excluded.answer
    WHERE d.status <> 'delivered'

-- name: erased
-- When players $2 were erased (unix seconds; 0: never). Held, so that an erasure under way is waited for, and none
-- begins before what is noted of them is there for it.
SELECT player_id, unix(erased_at) AS erased_at FROM players WHERE tenant_id = $1 AND player_id = ANY($2::text[])
ORDER BY player_id FOR SHARE

-- name: told
-- Who has a delivery of one of the events $2: done, or waiting for its next try.
SELECT integration_id, event_id FROM integration_deliveries WHERE tenant_id = $1 AND event_id = ANY($2::text[])
  AND integration_id IN (SELECT integration_id FROM integrations WHERE tenant_id = $1)

-- name: tenants_with_retries
-- Tenants that have a try due: a look at the index for each integration, however many events wait.
SELECT DISTINCT i.tenant_id FROM integrations AS i WHERE i.status = 'active' AND EXISTS (
    SELECT FROM integration_deliveries AS d
    WHERE d.tenant_id = i.tenant_id AND d.integration_id = i.integration_id AND d.status = 'retry'
      AND d.next_attempt_at <= now()
)

-- name: lease_retries
-- Takes the tries that are due, of each integration ($2) at most as many as it has room for ($3), those that wait
-- longest; for $4 seconds they are nobody else's. Found once and by themselves: joined to what is written, they could
-- be looked for again for each row of it, and those that are taken already would be passed over for the next ones.
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
-- Keeps the newest $3 of an integration's deliveries, what is to be tried again, and all whose events may come once
-- more: those of the last ten minutes, and since everything was told, which may be longer ago.
DELETE FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND status <> 'retry'
  AND created_at < coalesce((SELECT told_until FROM event_marks WHERE tenant_id = $1), now()) - interval '10 minutes'
  AND delivery_id < (
    SELECT delivery_id FROM integration_deliveries WHERE tenant_id = $1 AND integration_id = $2
    ORDER BY delivery_id DESC OFFSET $3 LIMIT 1
)

-- name: list_deliveries
-- An integration's deliveries, the newest first, after $4. $3 the merchant whose staff asks ('' the tenant's own): it
-- reads of its own campaigns' events alone, since the tenant's integrations are told of every merchant's.
SELECT delivery_id, integration_id, event_id, event_type, status, attempts, http_status, error, duration_ms, event,
       answer, unix(next_attempt_at) AS next_attempt_at, unix(created_at) AS created_at
FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND ($3 = '' OR event ->> 'merchant_id' = $3)
  AND ($4::text IS NULL OR delivery_id < $4)
ORDER BY delivery_id DESC LIMIT $5

-- name: delivery
-- One of an integration's deliveries, with the event that it told. $4 the merchant whose staff asks ('' the tenant's
-- own). No row: it has no such delivery, or of another's event.
SELECT status, attempts, event, unix(created_at) AS created_at FROM integration_deliveries
WHERE tenant_id = $1 AND integration_id = $2 AND delivery_id = $3 AND ($4 = '' OR event ->> 'merchant_id' = $4)
