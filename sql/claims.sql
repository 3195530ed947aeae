-- Claims of rewards by players, in batches. See runtime/actors/claims.py.

-- name: claim
-- Claims rewards. Each position of the arrays is one claim; one that fails does not affect the others. A reward appears
-- at most once. An idempotency key belongs to its reward; the answers are stored in claim_answers.
-- $1 tenant; $2 reward, $3 player, $4 idempotency key (NULL: none), $5 id for a task; $6 names of the instant channels;
-- $7 answers to the prize's current claim form, an object of non-empty texts, per position.
-- One row per claim, in the given order, with its outcome:
--   claimed       the reward as it is now, and the task's id if a worker must deliver it
--   replayed      done before with this key; rewards.as_claimed has the answers
--   unknown       no such reward, or another player's
--   suspended     the tenant, the campaign's merchant or the player is suspended
--   illegal       not won, or no longer; see status and claimed_at
--   unentered     the campaign needs an entry before claims; `entry_missing` lists what it lacks
--   barred        the campaign does not admit the country of the player's entry, `barred_country`
--   unanswered    invalid answers, listed in `problems`; nothing was changed
--   out_of_stock  no code is free; nothing was changed
WITH
requested AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $7::jsonb[])
        WITH ORDINALITY AS a (reward_id, player_id, claim_key, task_id, answers, nth)
),
locked AS (
    -- Locked in key order, so that this sees the result of a concurrent claim.
    SELECT a.nth, a.task_id, a.answers, r.*,
           EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id) AS tasked
    FROM requested AS a
    JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = a.reward_id AND r.player_id = a.player_id
    ORDER BY r.reward_id
    FOR UPDATE OF r
),
evaluated AS (
    SELECT h.*, reward_status(h.status, h.expires_at, h.tasked) AS effective_status,
           CASE
               WHEN EXISTS (SELECT FROM tenants WHERE tenant_id = $1 AND status = 'suspended') THEN 'tenant'
               WHEN EXISTS (SELECT FROM campaigns AS c JOIN merchants AS o USING (tenant_id, merchant_id)
                            WHERE c.tenant_id = $1 AND c.campaign_id = h.campaign_id AND o.status = 'suspended')
                   THEN 'merchant'
               WHEN EXISTS (SELECT FROM players
                            WHERE tenant_id = $1 AND player_id = h.player_id AND status = 'suspended') THEN 'player'
           END AS suspended,
           prize_content(p) AS prize, p.claim_fields, claim_problems(p.claim_fields, h.answers) AS problems,
           entry_missing(c.entry_needs, e.given) AS entry_missing, barred_country(c.entry, e.given) AS barred_country
    FROM locked AS h
    LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = h.campaign_id
        AND c.entry ->> 'mode' = 'before_claim'
    LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = c.campaign_id AND e.player_id = h.player_id
    LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = h.prize_id
),
due AS (
    -- Claimable rewards. Delivery is due now, unless it was due before or an admin triggers it.
    SELECT h.*, p.channel,
           p.due AND p.instant AS instant,
           p.due AND NOT p.instant AND p.channel <> 'manual' AS sent,
           p.due AND p.channel = 'manual' AS awaited,
           p.due AND p.channel = 'voucher_code' AS coded,
           p.due AND p.channel = 'voucher_code' AND k.unexpired IS NOT TRUE AS uncoded,
           k.code_id AS reserved_code_id,
           k.key_id AS reserved_key_id,
           k.ciphertext AS reserved_ciphertext,
           row_number() OVER (
               PARTITION BY h.prize_id, p.due AND p.channel = 'voucher_code' AND k.unexpired IS NOT TRUE ORDER BY h.nth
           ) AS code_nth
    FROM evaluated AS h
    CROSS JOIN LATERAL (
        SELECT z.channel, z.channel = ANY($6::text[]) AS instant,
               z.redemption_mode <> 'manual' AND NOT h.tasked AS due
        FROM prizes AS z WHERE z.tenant_id = $1 AND z.prize_id = h.prize_id
    ) AS p
    -- The win took a code unless the prize's channel was another; it may have expired since. No lock needed: the reward's
    -- lock covers it.
    LEFT JOIN LATERAL (
        SELECT c.code_id, c.key_id, c.ciphertext, c.expires_at > now() AS unexpired
        FROM codes AS c WHERE c.tenant_id = $1 AND c.reward_id = h.reward_id
    ) AS k ON true
    WHERE h.effective_status = 'won' AND h.suspended IS NULL AND h.problems IS NULL
      AND h.entry_missing IS NULL AND h.barred_country IS NULL
),
code_picks AS (
    -- SKIP LOCKED: do not wait for concurrent picks.
    SELECT w.prize_id, f.code_id, row_number() OVER (PARTITION BY w.prize_id ORDER BY f.code_id) AS nth
    FROM (SELECT d.prize_id, count(*) AS wanted FROM due AS d WHERE d.uncoded GROUP BY d.prize_id) AS w
    CROSS JOIN LATERAL (
        SELECT c.code_id FROM codes AS c
        WHERE c.tenant_id = $1 AND c.prize_id = w.prize_id AND c.reward_id IS NULL AND c.withdrawn_at IS NULL
          AND c.expires_at > now()
        ORDER BY c.expires_at, c.code_id LIMIT w.wanted FOR UPDATE SKIP LOCKED
    ) AS f
),
expired_codes AS (
    -- Replaced by the picks. SKIP LOCKED: a revoke locks the code before the reward, and so would deadlock with a wait.
    SELECT c.prize_id, c.code_id, d.nth FROM due AS d
    JOIN codes AS c ON c.tenant_id = $1 AND c.prize_id = d.prize_id AND c.code_id = d.reserved_code_id
    WHERE d.uncoded FOR UPDATE OF c SKIP LOCKED
),
ready AS (
    SELECT d.*, p.code_id AS picked_code_id
    FROM due AS d LEFT JOIN code_picks AS p ON d.uncoded AND p.prize_id = d.prize_id AND p.nth = d.code_nth
    WHERE NOT d.uncoded
       OR p.code_id IS NOT NULL AND (d.reserved_code_id IS NULL OR d.nth IN (SELECT e.nth FROM expired_codes AS e))
),
moved AS (
    UPDATE rewards AS r SET
        status = CASE WHEN d.instant THEN 'fulfilled' ELSE 'claimed' END,
        claimed_at = now(),
        fulfilled_at = CASE WHEN d.instant THEN now() END,
        claim_key = a.claim_key
    FROM ready AS d JOIN requested AS a ON a.nth = d.nth
    WHERE r.tenant_id = $1 AND r.reward_id = d.reward_id AND r.status = 'won'
    RETURNING d.nth, r.reward_id, r.status, r.claimed_at, r.fulfilled_at, d.prize_id, d.picked_code_id
),
answered AS (
    INSERT INTO claim_answers (tenant_id, reward_id, answers)
    SELECT $1, d.reward_id, answers_as_list(d.claim_fields, d.answers)
    FROM ready AS d JOIN moved AS n ON n.nth = d.nth
    WHERE d.answers <> '{}'
),
codes_released AS (
    UPDATE codes AS c SET reward_id = NULL, assigned_at = NULL
    FROM expired_codes AS e JOIN moved AS n ON n.nth = e.nth
    WHERE c.tenant_id = $1 AND c.prize_id = e.prize_id AND c.code_id = e.code_id
    RETURNING c.code_id
),
codes_taken AS (
    -- After the release: a reward has one code (codes_reward).
    UPDATE codes AS c SET reward_id = n.reward_id, assigned_at = now()
    FROM moved AS n
    WHERE c.tenant_id = $1 AND c.prize_id = n.prize_id AND c.code_id = n.picked_code_id
      AND (SELECT count(*) FROM codes_released) >= 0
    RETURNING c.reward_id, c.key_id, c.ciphertext
),
tasked AS (
    INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status,
                       attempts, next_attempt_at)
    SELECT $1, d.task_id, d.reward_id, d.prize_id, d.campaign_id, d.player_id, d.channel,
           CASE WHEN d.instant THEN 'delivered' WHEN d.sent THEN 'pending' ELSE 'awaiting' END,
           CASE WHEN d.instant THEN 1 ELSE 0 END,
           CASE WHEN d.sent THEN now() END
    FROM ready AS d JOIN moved AS n ON n.nth = d.nth
    WHERE d.instant OR d.sent OR d.awaited
)
SELECT
    CASE
        WHEN n.nth IS NOT NULL THEN 'claimed'
        WHEN h.claim_key = a.claim_key THEN 'replayed'
        WHEN h.nth IS NULL THEN 'unknown'
        WHEN h.suspended IS NOT NULL THEN 'suspended'
        WHEN h.effective_status <> 'won' THEN 'illegal'
        WHEN h.entry_missing IS NOT NULL THEN 'unentered'
        WHEN h.barred_country IS NOT NULL THEN 'barred'
        WHEN h.problems IS NOT NULL THEN 'unanswered'
        ELSE 'out_of_stock'
    END AS outcome,
    a.reward_id, h.player_id, h.prize_id, h.name, h.type, h.value, h.quantity, coalesce(n.status, h.effective_status) AS status,
    h.game_id, h.play_id, h.campaign_id, h.milestone_id, unix(h.won_at) AS won_at,
    unix(coalesce(n.claimed_at, h.claimed_at)) AS claimed_at,
    unix(coalesce(n.fulfilled_at, h.fulfilled_at)) AS fulfilled_at,
    unix(h.expires_at) AS expires_at,
    h.problems, h.entry_missing, h.barred_country, h.prize,
    coalesce(k.key_id, CASE WHEN d.coded THEN d.reserved_key_id END) AS key_id,
    coalesce(k.ciphertext, CASE WHEN d.coded THEN d.reserved_ciphertext END) AS ciphertext,
    h.suspended,
    CASE WHEN d.sent THEN d.task_id END AS sent_task_id,
    coalesce(d.instant, false) AS delivered, coalesce(d.awaited, false) AS awaiting,
    (SELECT c.merchant_id FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = h.campaign_id) AS merchant_id
FROM requested AS a
LEFT JOIN evaluated AS h ON h.nth = a.nth
LEFT JOIN ready AS d ON d.nth = a.nth
LEFT JOIN moved AS n ON n.nth = a.nth
LEFT JOIN codes_taken AS k ON k.reward_id = a.reward_id
ORDER BY a.nth
