"""The Merkle log: roots and proofs against RFC 6962's recursive definitions, tiles, notes and entries."""

import hashlib
from collections.abc import Sequence

import pytest

from runtime.commands.groups.log.witness import Distrusted, State, read_entries, standstill, visit
from runtime.rules.log import entries, notes, tiles, tree
from runtime.rules.log.tiles import Tile
from runtime.rules.log.tree import MerkleTree, Node

# RFC 6962's test leaves, and the roots over the first n of them (from the certificate-transparency reference code).
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = {0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
ROOTS |= {1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"}
ROOTS |= {2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"}
ROOTS |= {3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"}
ROOTS |= {5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"}
ROOTS |= {8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"}


@pytest.mark.parametrize("size", ROOTS)
def test_merkle_root_is_that_of_rfc_6962(size: int) -> None:
    grown = MerkleTree()
    grown.add_hashes(tree.hash_leaf(bytes.fromhex(text)) for text in LEAVES[:size])
    assert grown.root() == ROOTS[size]


def head(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1."""
    if len(leaves) < 2:
        return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
    k = half(leaves)
    return hashlib.sha256(b"\1" + head(leaves[:k]) + head(leaves[k:])).digest()


def half(leaves: Sequence[bytes]) -> int:
    return max(2**i for i in range(20) if 2**i < len(leaves))


def path(m: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(leaves) == 1:
        return []
    k = half(leaves)
    return [*path(m, leaves[:k]), head(leaves[k:])] if m < k else [*path(m - k, leaves[k:]), head(leaves[:k])]


def subproof(m: int, leaves: Sequence[bytes], whole: bool) -> list[bytes]:
    """SUBPROOF of section 2.1.2."""
    if m == len(leaves):
        return [] if whole else [head(leaves)]
    k = half(leaves)
    if m <= k:
        return [*subproof(m, leaves[:k], whole), head(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), head(leaves[:k])]


def hashes(ranges: list[tuple[int, int]], leaves: Sequence[bytes]) -> list[bytes]:
    def hash_of(node: Node) -> bytes:
        return head(leaves[node.number << node.level : (node.number + 1) << node.level])

    return [tree.hash_range(start, end, hash_of) for start, end in ranges]


@pytest.mark.parametrize("size", [*range(1, 18), 33])
def test_proofs_are_those_of_rfc_6962_and_prove_nothing_else(size: int) -> None:
    leaves = [bytes([i]) for i in range(size)]
    root = head(leaves)
    for m in range(size):
        proof = hashes(tree.inclusion_ranges(m, size), leaves)
        assert proof == path(m, leaves)
        leaf = tree.hash_leaf(leaves[m])
        assert tree.verify_inclusion(leaf, m, size, proof, root)
        assert not tree.verify_inclusion(tree.hash_leaf(b"x"), m, size, proof, root)
        assert not tree.verify_inclusion(leaf, m, size, [*proof, root], root)
        assert not proof or not tree.verify_inclusion(leaf, m, size, proof[1:], root)
        assert not any(tree.verify_inclusion(leaf, other, size, proof, root) for other in range(size) if other != m)
    for m in range(1, size + 1):
        proof, old = hashes(tree.consistency_ranges(m, size), leaves), head(leaves[:m])
        assert proof == subproof(m, leaves, True)
        assert tree.verify_consistency(m, size, old, root, proof)
        assert not tree.verify_consistency(m, size, head([b"x", *leaves[1:m]]), root, proof)
        assert not tree.verify_consistency(m, size, old, head([*leaves, b"x"]), proof)
        assert not proof or not tree.verify_consistency(m, size, old, root, proof[:-1])


def test_tree_is_read_from_its_tiles() -> None:
    """Of 70,000 leaves, as in the specification's example: 273 full tiles and one of 112; then 1 and 17; then 1."""
    size, held, grown = 70_000, {}, MerkleTree()
    for i in range(size):
        leaf = tree.hash_leaf(i.to_bytes(4, "big"))
        for node, value in [(Node(0, i), leaf), *grown.add_hash(leaf)]:
            held.setdefault((node.level // 8, node.number // 256), bytearray()).extend(value)
        if i == 299:
            old = MerkleTree(grown.size, grown.frontier)
    assert [len(held[key]) // 32 for key in sorted(held)] == [256] * 273 + [112, 256, 17, 1]
    ranges = tree.consistency_ranges(300, size)
    needed = [node for start, end in ranges for node in tree.nodes(start, end)]
    fetched = {(tile.level, tile.number): bytes(held[tile.level, tile.number]) for tile in tiles.tiles_of(needed, size)}
    proof = [tree.hash_range(start, end, lambda node: tiles.read_node(node, fetched)) for start, end in ranges]
    assert tree.verify_consistency(300, size, old.digest(), grown.digest(), proof)
    assert len(fetched) < 6
    assert {tile.width for tile in tiles.tiles_of([Node(0, size - 1)], size)} == {112}


def test_tile_has_one_path() -> None:
    assert Tile(1, 1_234_067, 7).path == "tile/1/x001/x234/067.p/7"
    assert Tile(0, 3, entries=True).path == "tile/entries/003"
    for tile in (Tile(1, 1_234_067, 7), Tile(0, 0), Tile(0, 256_000, 255, entries=True)):
        assert tiles.parse_tile(tile.path.removeprefix("tile/")) == tile
    wrong = ("0/000.p/0", "0/000.p/256", "0/000/", "entries/-01", "0/0\u06610")
    for path in ("00/000", "8/000", "0/1", "0/x000/001", *wrong):
        assert tiles.parse_tile(path) is None


def test_note_is_that_of_the_specification() -> None:
    """The example of golang.org/x/mod/sumdb/note."""
    key = notes.VerifierKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    line = "PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    assert notes.verify_note(f"{text}\n\N{EM DASH} {line}\n", [key]) == text
    with pytest.raises(notes.BadNote, match="wrong"):
        notes.verify_note(f"x{text}\n\N{EM DASH} {line}\n", [key])


def test_checkpoint_is_signed_by_each_key_and_verified_by_any() -> None:
    origin = notes.origin_of("promo.example.com", "a+b c")
    assert origin == "promo.example.com/log/a%2Bb%20c"
    old, new = notes.SigningKey(origin, b"old"), notes.SigningKey(origin, b"new")
    checkpoint = notes.Checkpoint(origin, 3, bytes(32))
    note = notes.sign_checkpoint(checkpoint, [new, old])
    for key in (old, new):
        assert notes.verify_checkpoint(note, [notes.VerifierKey.parse(str(key.verifier))]) == checkpoint
        with pytest.raises(ValueError, match="not an Ed25519 verifier key"):
            notes.VerifierKey.parse(f"x{key.verifier}")
    empty = notes.Checkpoint(origin, 0, bytes(32))
    assert notes.read_checkpoint(notes.sign_checkpoint(empty, [new])) == empty
    with pytest.raises(notes.BadNote, match="none"):
        notes.verify_checkpoint(note, [notes.SigningKey(origin, b"other").verifier])
    with pytest.raises(notes.BadNote, match="wrong"):
        notes.verify_checkpoint(note.replace("\n3\n", "\n4\n"), [old.verifier])
    for wrong in ("", "x\n\n", note.replace("\n3\n", "\n03\n"), note.replace("\n\n", "\n")):
        with pytest.raises(notes.BadNote):
            notes.read_checkpoint(wrong)


def test_entries_survive_a_bundle() -> None:
    entry = entries.write_entry("play", "play_1", {"score": 3, "b": 'é"\n'})
    assert entry == '{"b":"é\\"\\n","id":"play_1","kind":"play","score":3}'.encode()
    bundle = entries.write_bundle([entry, b""])
    assert list(entries.read_bundle(bundle)) == [entry, b""]
    assert entries.read_entry(entry)["kind"] == "play"
    assert entries.read_entry(b"[1]") == entries.read_entry(b"\xff") == {}
    for cut in (bundle[:-1], bundle[:5]):
        with pytest.raises(ValueError, match="cut off"):
            list(entries.read_bundle(cut))


async def test_witness_survives_a_hostile_log() -> None:
    """Whatever the operator logs, each entry is named, on one line."""
    held = [b"[]", b'{"kind":"mark","id":"x\\n"}', b'{"kind":"play","id":7}']
    held += [b'{"at":null,"kind":"p","id":"\\u001b[2J"}', *(b'{"at":%d,"id":"p1","kind":"play"}' % at for at in (5, 6))]
    grown, key = MerkleTree(), notes.SigningKey("o", b"secret")
    grown.add_hashes(map(tree.hash_leaf, held))
    files = {"checkpoint": notes.sign_checkpoint(notes.Checkpoint("o", len(held), grown.digest()), [key]).encode()}
    files |= {"tile/0/000.p/6": b"".join(map(tree.hash_leaf, held))}
    files |= {"tile/entries/000.p/6": entries.write_bundle(held)}

    async def fetch(path: str) -> bytes:
        return files[path]

    state = State(keys=[str(key.verifier)])
    await visit(state, fetch)
    assert standstill(state, 60, entries=False) == ""
    state.grown_at -= 3601
    await visit(state, fetch)
    assert "not grown" in standstill(state, 60, entries=False)
    problems = [problem async for problem in read_entries(state, fetch)]
    assert problems == [
        *("entry 0: is malformed", "entry 1: mark x is malformed", "entry 2: play 7 is malformed"),
        *("entry 3: p [2J is malformed", "entry 5: play p1 is in the log twice"),
    ]
    assert state.read == 0, "it is checked again"
    state.read = 5
    assert [problem async for problem in read_entries(state, fetch)] == problems[-1:], "earlier rows are remembered"
    files["tile/0/000.p/6"] = b"x" * 192
    with pytest.raises(Distrusted, match="signed root"):
        assert [problem async for problem in read_entries(state, fetch)]
    files["checkpoint"] = b"\xff"
    with pytest.raises(Distrusted, match="not a signed note"):
        await visit(state, fetch)
