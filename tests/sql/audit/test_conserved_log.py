import base64
from hashlib import sha256
from typing import Final

import asyncpg

from runtime.rules.log.entries import write_entry
from runtime.rules.log.tree import MerkleTree, hash_leaf
from tests.support.bare_rows import BARE, Case, hold_to

SCENE: Final = BARE
MARK: Final = hash_leaf(write_entry("mark", "m", {})).hex()


def root_of(leaves: int) -> bytes:
    tree = MerkleTree()
    tree.add_hashes([b"1"] * leaves)
    return tree.digest()


TWO: Final = base64.b64encode(root_of(2)).decode()

LOG: Final[dict[str, Case]] = {
    "logged_leaf": (
        """+ log_trees logged_until: '2026-03-01 00:00Z';
        + plays play_id played_at: p1 '2026-02-01 00:00Z' | p2 '2026-02-28 23:59:30Z' | p3 '2026-02-01 00:00Z';
        + log_leaves leaf_index kind row_id: 0 play p3 | 1 reward p1;""",
        *("play p1,play p2,play p3", "play p1||a leaf|2026-02-01T00:00:00Z"),
    ),
    "logged_time": (
        """+ plays play_id played_at: early '2126-01-01 00:00Z' | late '2126-01-01 00:00Z' | past '2026-01-01';
        + log_leaves leaf_index kind row_id: 0 play early;""",
        *("play early,play late,play past", "play late||not later than now|2126-01-01T00:00:00Z"),
    ),
    "leaf_row": (
        rf"""+ log_leaves leaf_index kind row_id hash: 0 play p '\x00' | 1 mark m '\x{MARK}' | 2 mark n '\x01';
        + log_leaves leaf_index kind=play row_id hash=1 archive: 3 q 7 | 4 r 7;
        + play_archives number=7 campaign_id=c first_leaf=3 last_leaf=3 entry_id: a;""",
        "0,1,2,3,4",
        f"""{4:019}|play r|31|no such row
        {0:019}|play p|00|no such row
        {2:019}|mark n|01|{hash_leaf(write_entry("mark", "n", {})).hex()}""",
    ),
    "archive_entry": (
        """+ audit_entries entry_id action subject_type subject_id after:
            a campaign.archive campaign c '{"plays": 2, "file_sha256": "f", "digest": "d"}' |
            b campaign.archive campaign e '{}' |
            u campaign.archive campaign l '{"plays": 1, "file_sha256": "f", "digest": "d"}' |
            v campaign.archive campaign o '{"plays": 1, "file_sha256": "f", "digest": "d"}';
        + campaigns campaign_id status: l active | o ended;
        + play_archives number campaign_id plays file_sha256=f digest=d entry_id: 1 c 3 a | 2 d 1 x | 3 new 1 '' |
            4 l 1 u | 5 o 1 v;""",
        *("c,d,e,new,l,o", "c|a|2 f d|3 f d\nd||an audit entry|1 f d\ne|b||no archive\nl|u|1 f d|1 f d not over"),
    ),
    "archive_plays": (
        """+ log_leaves leaf_index kind row_id archive: 0 play p 1 | 1 play q 1 | 2 play r 2 | 3 play s 4;
        + play_archives number campaign_id plays counted first_leaf=0 last_leaf=9 entry_id=a digest=d finished_at:
            1 part 9 2 - | 2 lost 9 2 - | 3 done 2 2 (now()) | 4 full 1 1 -;""",
        *("part,lost,done,full", f"lost||2|1\ndone||2 d|0\nfull||1 d|1 {sha256(sha256().digest()).hexdigest()}"),
    ),
    "archive_counted": (
        """+ games game_id campaign_id: g c | h c | i d;
        + game_players game_id player_id plays: g p 2 | h p 1 | h q 3 | i p 4;
        + play_archives number campaign_id plays entry_id: 1 c 6 a | 2 d 3 a | 3 new 1 '';""",
        *("c,d,new", "d||4|3"),
    ),
    "leaf_time": (
        """+ plays play_id played_at: early '2025-12-31 23:58:59Z' | near '2025-12-31 23:59:01Z' | late '2026-01-02';
        + log_leaves leaf_index kind row_id: 0 play early | 1 mark '1767225600000000 1' | 2 play near | 3 play late |
            4 reward early;
        + rewards reward_id won_at: early '2025-12-31 23:58:59Z';""",
        *("0,1,2,3,4", f"{4:019}|reward early|from 2026-01-01T00:00:00Z|2025-12-31T23:58:59Z"),
    ),
    "leaf_gap": (
        *("+ log_leaves leaf_index kind row_id: 0 mark a | 1 mark b | 3 mark c;", "0,1,3"),
        f"{3:019}|mark c|leaf 2|none",
    ),
    "leaf_node": (
        rf"""INSERT INTO log_leaves (leaf_index, kind, row_id, hash)
            SELECT n, 'mark', n, '1' FROM generate_series(0, 767) AS n;
        + log_nodes level number hash: 8 0 '\x{root_of(256).hex()}' | 8 1 '\x02';""",
        "255,256,511,767",
        f"""{511:019}|level 8|{root_of(256).hex()}|02
        {767:019}|level 8|{root_of(256).hex()}|none""",
    ),
    "checkpoint_root": (
        f"""INSERT INTO log_leaves (leaf_index, kind, row_id, hash)
            SELECT n, 'mark', n, '1' FROM generate_series(0, 9) AS n;
        INSERT INTO log_checkpoints (size, note) VALUES (2, E'o\\n2\\n{TWO}\\n'), (3, E'o\\n3\\n{TWO}\\n'),
            (4, E'o\\n2\\n{TWO}\\n')""",
        "2,3,4",
        f"""{3:019}||3 {TWO}|3 {base64.b64encode(root_of(3)).decode()}
        {4:019}||2 {TWO}|4 {base64.b64encode(root_of(4)).decode()}""",
    ),
}


async def test_checks_of_the_log_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", LOG, 0, 1, 3, 4)


async def test_root_over_several_tiles_is_the_tree_s(connection: asyncpg.Connection) -> None:
    """What the audit computes from the rightmost tiles is what the log signed."""
    tree, nodes = MerkleTree(), []
    sizes = (1, 255, 256, 257, 511, 65_536, 65_793)
    roots = {}
    for _ in range(max(sizes)):
        nodes += tree.add_hash(b"1")
        if tree.size in sizes:
            roots[tree.size] = tree.digest()
    await connection.execute(
        "INSERT INTO log_leaves (leaf_index, kind, row_id, hash)"
        " SELECT n, 'mark', n, '1' FROM generate_series(0, $1) AS n",
        max(sizes) - 1,
    )
    change = "INSERT INTO log_nodes (level, number, hash) VALUES ($1, $2, $3)"
    await connection.executemany(change, [(node.level, node.number, held) for node, held in nodes])
    for size, root in roots.items():
        assert await connection.fetchval("SELECT log_root('t', $1)", size) == root, size
