-- A play as one transaction of single statements: the same writes as commit.sql, without batching.
-- The most contended row (the stock) comes last, to hold its lock as briefly as possible.
-- {tenant}, {game}, {prize}, {campaign}: identifiers; {session}, {won}, {lost}: columns of real plays.
\set player random(0, {players} - 1)
\set salt random(0, 1099511627775)
\set win random(0, 1)
BEGIN;
INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays)
    VALUES ('{tenant}', '{game}', 'player_bench' || lpad(:player::text, 19, '0'), 1, current_date, 1)
    ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET plays = c.plays + 1, day = excluded.day,
        day_plays = CASE WHEN c.day >= excluded.day THEN c.day_plays ELSE 0 END + 1;
\if :win
INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload, outcome,
                   score, wins, points, idempotency_key, request_hash)
    VALUES ('{tenant}', 'play_' || {ulid}, '{game}', 'player_bench' || lpad(:player::text, 19, '0'), '{session}', 1,
            '\x{seed}', '', '{{}}', '{won}', 0, 1, 0, lpad(to_hex(:salt::bigint), 32, '0'), '\x{hash}');
INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, game_id, play_id, name, type, value,
                     quantity, status, fulfilled_at)
    VALUES ('{tenant}', 'reward_' || {ulid}, 'player_bench' || lpad(:player::text, 19, '0'), '{prize}', '{campaign}',
            '{game}', 'play_' || {ulid}, 'Coffee voucher', 'voucher', 5, 1, 'fulfilled', now());
INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status)
    VALUES ('{tenant}', 'task_' || {ulid}, 'reward_' || {ulid}, '{prize}', '{campaign}',
            'player_bench' || lpad(:player::text, 19, '0'), 'none', 'delivered');
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
    VALUES ('{tenant}', '{prize}', 'player_bench' || lpad(:player::text, 19, '0'), 1)
    ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded + 1;
INSERT INTO prize_days AS c (tenant_id, prize_id, day, awarded) VALUES ('{tenant}', '{prize}', current_date, 1)
    ON CONFLICT (tenant_id, prize_id, day) DO UPDATE SET awarded = c.awarded + 1;
UPDATE stock SET remaining = remaining - 1, awarded = awarded + 1
    WHERE tenant_id = '{tenant}' AND prize_id = '{prize}' AND remaining >= 1;
\else
INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload, outcome,
                   score, wins, points, idempotency_key, request_hash)
    VALUES ('{tenant}', 'play_' || {ulid}, '{game}', 'player_bench' || lpad(:player::text, 19, '0'), '{session}', 1,
            '\x{seed}', '', '{{}}', '{lost}', 0, 0, 0, lpad(to_hex(:salt::bigint), 32, '0'), '\x{hash}');
\endif
COMMIT;
