"""What is true of the database at every moment between transactions, as SQL that finds no row (faults.md).

Every test that plays ends with `check`. A broken invariant comes back with its rows, so that the
failure says which balance, prize or player it is.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

LEDGERS: Final = "the sum of a ledger is its balance"
CHAIN: Final = "in the order of a ledger each entry begins where the one before ended"
TURNS: Final = "the sum of a player's turn entries is the turns left"

INVARIANTS: Final[dict[str, str]] = {
    LEDGERS: """
        SELECT tenant_id, player_id, scope_key, currency, sum(amount) FROM (
            SELECT tenant_id, player_id, scope_key, currency, balance AS amount FROM balances
            UNION ALL
            SELECT tenant_id, player_id, scope_key, currency, -amount FROM ledger_entries
        ) AS moved GROUP BY 1, 2, 3, 4 HAVING sum(amount) <> 0
    """,
    TURNS: """
        SELECT tenant_id, player_id, campaign_id, sum(amount) FROM (
            SELECT tenant_id, player_id, campaign_id, balance AS amount FROM turn_balances
            UNION ALL
            SELECT tenant_id, player_id, campaign_id, -amount FROM turn_entries
        ) AS moved GROUP BY 1, 2, 3 HAVING sum(amount) <> 0
    """,
    CHAIN: """
        SELECT * FROM (
            SELECT player_id, scope_key, currency, entry_id, seq, amount, balance_after,
                   lag(balance_after, 1, 0::bigint) OVER (
                       PARTITION BY tenant_id, player_id, scope_key, currency ORDER BY seq, entry_id
                   ) AS before
            FROM ledger_entries
        ) AS chain WHERE balance_after <> before + amount
    """,
    "no entry of a ledger is beyond its balance's seq": """
        SELECT b.player_id, b.scope_key, b.currency, b.seq, max(e.seq) FROM balances AS b
        JOIN ledger_entries AS e USING (tenant_id, player_id, scope_key, currency)
        GROUP BY b.tenant_id, b.player_id, b.scope_key, b.currency, b.seq HAVING b.seq < max(e.seq)
    """,
    "no balance is negative, and none ever was": """
        SELECT player_id, currency, balance FROM balances WHERE balance < 0
        UNION ALL SELECT player_id, currency, balance_after FROM ledger_entries WHERE balance_after < 0
        UNION ALL SELECT player_id, campaign_id, balance FROM turn_balances WHERE balance < 0
        UNION ALL SELECT player_id, campaign_id, balance_after FROM turn_entries WHERE balance_after < 0
    """,
    "a prize's total is what remains and what is awarded": """
        SELECT * FROM stock WHERE remaining < 0 OR awarded < 0 OR (total > 0 AND total <> remaining + awarded)
    """,
    # One that expired, failed or was revoked gave its units back, unless they had been delivered; points take none.
    "what is awarded of a prize is what its rewards hold": """
        SELECT s.tenant_id, s.prize_id, s.awarded, coalesce(sum(r.quantity), 0) AS held
        FROM stock AS s
        LEFT JOIN rewards AS r ON r.tenant_id = s.tenant_id AND r.prize_id = s.prize_id
            AND r.type <> 'points'
            AND (r.status NOT IN ('revoked', 'expired', 'failed') OR r.fulfilled_at IS NOT NULL)
        GROUP BY s.tenant_id, s.prize_id, s.awarded HAVING s.awarded <> coalesce(sum(r.quantity), 0)
    """,
    "a reward whose delivery is due has its task": """
        SELECT r.reward_id, r.status, p.redemption_mode, p.channel
        FROM rewards AS r JOIN prizes AS p USING (tenant_id, prize_id)
        LEFT JOIN tasks AS t USING (tenant_id, reward_id)
        WHERE t.task_id IS NULL AND r.type <> 'points' AND (
            r.status IN ('fulfilling', 'fulfilled', 'failed')
            OR (r.status = 'won' AND p.redemption_mode = 'on_win' AND p.channel <> 'manual')
            OR (r.status = 'claimed' AND p.redemption_mode = 'on_claim' AND p.channel <> 'manual')
        )
    """,
    "a task has its reward, and agrees with it on what is delivered": """
        SELECT t.task_id, t.status, r.status FROM tasks AS t LEFT JOIN rewards AS r USING (tenant_id, reward_id)
        WHERE r.reward_id IS NULL OR (t.status = 'delivered') <> (r.fulfilled_at IS NOT NULL)
    """,
    "a rung is granted to a player once": """
        SELECT tenant_id, player_id, game_id, milestone_id, count(*) FROM rewards WHERE milestone_id <> ''
        GROUP BY 1, 2, 3, 4 HAVING count(*) > 1
    """,
    "a rung's reward and its grant name each other": """
        SELECT g.milestone_id, g.reward_id, r.reward_id
        FROM milestone_grants AS g
        FULL JOIN (SELECT * FROM rewards WHERE milestone_id <> '') AS r
            ON r.tenant_id = g.tenant_id AND r.reward_id = g.reward_id AND r.milestone_id = g.milestone_id
            AND r.game_id = g.game_id
        WHERE (g.reward_id IS NULL) OR (g.reward_id <> '' AND r.reward_id IS NULL)
    """,
    "a rung that is bought is paid once": """
        -- But for what a guest had bought that its player has too: it is the guest's still, or is paid back.
        SELECT tenant_id, player_id, reference_id, count(*) FROM ledger_entries
        WHERE reason = 'milestone_spend' AND NOT EXISTS (
            SELECT FROM rewards AS r
            WHERE r.tenant_id = ledger_entries.tenant_id AND r.reward_id = ledger_entries.reward_id
              AND r.player_id <> ledger_entries.player_id
        )
        GROUP BY 1, 2, scope_key, currency, 3
        HAVING count(*) > (
            SELECT count(*) FROM milestone_grants AS g
            WHERE g.tenant_id = ledger_entries.tenant_id AND g.player_id = ledger_entries.player_id
              AND g.milestone_id = ledger_entries.reference_id
        )
    """,
    "what a reward moved in a wallet is moved back where it is revoked, and only there": """
        SELECT r.reward_id, r.status, e.currency, sum(e.amount) FROM ledger_entries AS e
        LEFT JOIN rewards AS r USING (tenant_id, reward_id) WHERE e.reward_id <> ''
        GROUP BY e.tenant_id, e.reward_id, e.scope_key, e.currency, r.reward_id, r.status
        HAVING r.reward_id IS NULL OR (r.status = 'revoked') <> (sum(e.amount) = 0)
    """,
    "a code is given once, and to a reward that is there": """
        SELECT c.prize_id, c.code_id, c.reward_id, count(*) OVER (PARTITION BY c.tenant_id, c.reward_id)
        FROM codes AS c LEFT JOIN rewards AS r ON r.tenant_id = c.tenant_id AND r.reward_id = c.reward_id
        WHERE c.reward_id IS NOT NULL AND (r.reward_id IS NULL OR r.prize_id <> c.prize_id)
        UNION ALL
        SELECT prize_id, min(code_id), reward_id, count(*) FROM codes WHERE reward_id IS NOT NULL
        GROUP BY tenant_id, prize_id, reward_id HAVING count(*) > 1
    """,
    # Also before it is shown. A prize that got its channel after the win has its code at the claim.
    "a win of a code has taken it": """
        SELECT r.reward_id, r.status FROM rewards AS r JOIN prizes AS p USING (tenant_id, prize_id)
        LEFT JOIN codes AS c ON c.tenant_id = r.tenant_id AND c.reward_id = r.reward_id
        WHERE p.channel = 'voucher_code' AND r.type <> 'points' AND r.status IN ('won', 'claimed')
          AND (r.play_id <> '' OR r.milestone_id <> '') AND c.code_id IS NULL
    """,
    "a reward that ended without its code being shown has given it back": """
        SELECT r.reward_id, r.status FROM rewards AS r
        JOIN codes AS c ON c.tenant_id = r.tenant_id AND c.reward_id = r.reward_id
        WHERE r.status IN ('expired', 'revoked', 'failed') AND r.fulfilled_at IS NULL
    """,
    "a reward that was delivered as a code has one": """
        SELECT r.reward_id FROM rewards AS r
        JOIN tasks AS t ON t.tenant_id = r.tenant_id AND t.reward_id = r.reward_id AND t.channel = 'voucher_code'
        LEFT JOIN codes AS c ON c.tenant_id = r.tenant_id AND c.reward_id = r.reward_id
        WHERE r.fulfilled_at IS NOT NULL AND c.code_id IS NULL
    """,
    # A session's token begins with its nonce, which names the play.
    "a play has the session that it is named after, and no other": """
        SELECT p.play_id, p.session_id FROM plays AS p
        WHERE substr(p.session_id, 6, 26) <> substr(p.play_id, 6) OR p.session_id !~ '^sess_'
           OR EXISTS (SELECT FROM plays AS o
                      WHERE o.tenant_id = p.tenant_id AND o.session_id = p.session_id AND o.play_id <> p.play_id)
    """,
    "a play has the terms that its session was promised by, of its own game": """
        SELECT p.play_id, p.session_id FROM plays AS p WHERE NOT EXISTS (
            SELECT FROM promised_terms AS t
            WHERE t.tenant_id = p.tenant_id AND t.game_id = p.game_id
              AND starts_with(t.revision_hash, promised_by(p.session_id))
        )
    """,
    "a player's counter counts the player's plays": """
        SELECT tenant_id, game_id, player_id, sum(n) FROM (
            SELECT tenant_id, game_id, player_id, plays AS n FROM game_players
            UNION ALL
            SELECT tenant_id, game_id, player_id, -1 FROM plays
        ) AS counted GROUP BY 1, 2, 3 HAVING sum(n) <> 0
    """,
    # A play within seconds of midnight may be counted on the day on which it was decided.
    "a player's day counts the plays of that local day": """
        SELECT g.game_id, g.player_id, g.day, g.day_plays, d.plays FROM game_players AS g
        JOIN games USING (tenant_id, game_id)
        JOIN campaigns AS c USING (tenant_id, campaign_id)
        CROSS JOIN LATERAL (
            SELECT count(*) AS plays,
                   bool_or(extract(epoch FROM p.played_at AT TIME ZONE c.timezone)::bigint % 86400
                           NOT BETWEEN 5 AND 86394) AS near_midnight
            FROM plays AS p
            WHERE p.tenant_id = g.tenant_id AND p.game_id = g.game_id AND p.player_id = g.player_id
              AND (p.played_at AT TIME ZONE c.timezone)::date = g.day
        ) AS d
        WHERE g.day_plays <> d.plays AND NOT coalesce(d.near_midnight, false)
    """,
    # The points of a play make no reward, so of them only the day's and the players' counters are compared.
    "what a prize counts by day is what it counts by player": """
        SELECT prize_id, sum(n) FROM (
            SELECT prize_id, sum(awarded) AS n FROM prize_days GROUP BY 1
            UNION ALL
            SELECT prize_id, -sum(awarded) FROM prize_players GROUP BY 1
        ) AS counted GROUP BY 1 HAVING sum(n) <> 0
    """,
    "a prize's counter of a player counts the player's rewards": """
        SELECT r.prize_id, r.player_id, sum(r.quantity), c.awarded FROM rewards AS r
        JOIN prizes AS z USING (tenant_id, prize_id)
        LEFT JOIN prize_players AS c ON c.tenant_id = r.tenant_id AND c.prize_id = r.prize_id
            AND c.player_id = r.player_id
        WHERE r.type <> 'points'
        GROUP BY r.tenant_id, r.prize_id, r.player_id, c.awarded HAVING sum(r.quantity) <> coalesce(c.awarded, 0)
    """,
    "a play's rewards are those that its row tells of": """
        SELECT p.play_id, p.wins, json_array_length(p.outcome -> 'rewards') FROM plays AS p
        WHERE p.wins <> json_array_length(p.outcome -> 'rewards')
           OR (SELECT count(*) FROM rewards AS r
               WHERE r.tenant_id = p.tenant_id AND r.play_id = p.play_id AND r.milestone_id = '')
              <> (SELECT count(*) FROM json_array_elements(p.outcome -> 'rewards') AS w
                  WHERE coalesce(w ->> 'reward_id', '') <> '')
    """,
}


class Reads(Protocol):
    """The part of a connection, a pool or `Database` that is needed here."""

    async def fetch(self, query: str, /, *args: Any) -> list[Any]: ...


async def broken(database: Reads) -> dict[str, list[dict[str, Any]]]:
    """The invariants that do not hold, each with the rows that break it."""
    found = {name: [dict(row) for row in await database.fetch(query)] for name, query in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}


async def check(database: Reads) -> None:
    """Fails the test where an invariant does not hold."""
    assert await broken(database) == {}


async def check_sums(database: Reads) -> None:
    """Fails the test where a wallet or a player's turns are not what their entries say: for tests that write rows."""
    for name in (LEDGERS, CHAIN, TURNS):
        assert await database.fetch(INVARIANTS[name]) == [], name
