import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.actors.game.sessions import issue, open_session
from runtime.errors import Fault, Status
from runtime.settings import Key

OLD, NEW = Key("old", b"o" * 32), Key("new", b"n" * 32)
NOW = 1_780_000_000.0
TERMS = "5" * 64


def is_refused(token: str, *, keys: tuple[Key, ...] = (NEW,), tenant: str = "t", game: str = "g") -> bool:
    try:
        open_session(keys, tenant, game, token)
    except Fault as fault:
        assert (fault.status, fault.reason) == (Status.PERMISSION_DENIED, "SESSION_INVALID")
        return True
    return False


def test_session_says_what_it_was_issued_for() -> None:
    made = issue((NEW,), "t", "g", "ann", NOW, TERMS)
    opened = open_session((NEW,), "t", "g", made.token)
    assert (opened.player_id, opened.game_id, opened.nonce, opened.ordinal) == ("ann", "g", made.nonce, -1)
    assert opened.issued_ms == int(NOW * 1000)
    assert (opened.seed, opened.play_id) == (made.seed, f"play_{made.nonce}")


def test_sessions_of_one_moment_have_seeds_of_their_own() -> None:
    made = [issue((NEW,), "t", "g", "ann", NOW, TERMS) for _ in range(1000)]
    assert len({session.seed for session in made}) == len({session.play_id for session in made}) == 1000


def test_rotated_key_verifies_what_it_signed_and_another_of_its_name_does_not() -> None:
    made = issue((OLD,), "t", "g", "ann", NOW, TERMS)
    assert open_session((NEW, OLD), "t", "g", made.token).seed == made.seed
    assert issue((NEW, OLD), "t", "g", "ann", NOW, TERMS).key == NEW
    assert is_refused(made.token, keys=(NEW,))
    made = issue((NEW,), "t", "g", "ann", NOW, TERMS)
    assert is_refused(made.token, keys=(Key("new", b"x" * 32),))


def test_session_is_of_its_tenant_and_game_alone_whose_parts_cannot_shift() -> None:
    made = issue((NEW,), "t", "g", "ann", NOW, TERMS)
    assert is_refused(made.token, tenant="u")
    assert is_refused(made.token, game="h")
    assert not is_refused(made.token)
    assert is_refused(issue((NEW,), "t", "g", "a", NOW, TERMS).token, game="g\0a")
    assert is_refused(issue((NEW,), "t", "g\0a", "b", NOW, TERMS).token, game="g")


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_session_with_a_flipped_bit_is_refused(where: int, flip: int) -> None:
    token = issue((NEW,), "t", "g", "ann", NOW, TERMS).token
    position = where % len(token)
    assert is_refused(token[:position] + chr(ord(token[position]) ^ flip) + token[position + 1 :])


@given(st.text(max_size=200))
def test_text_that_is_no_session_is_refused(text: str) -> None:
    assert is_refused(text)
    assert is_refused("sess_" + text)


@pytest.mark.parametrize("text", ["", "sess_", "sess_AA", "sess_" + "A" * 5000, "sess_\ud800", "sess_" + "=" * 50])
def test_odd_texts_are_refused_alike(text: str) -> None:
    assert is_refused(text)


@pytest.mark.parametrize("ordinal", [0, 12])
def test_session_says_by_which_revision_it_was_promised_and_which_play_it_is(ordinal: int) -> None:
    made = issue((NEW,), "t", "g", "a.nn", NOW, TERMS, ordinal=ordinal)
    opened = open_session((NEW,), "t", "g", made.token)
    assert (opened.revision, opened.ordinal, opened.player_id) == (TERMS[:32], ordinal, "a.nn")
    assert opened.seed == made.seed
    assert is_refused(made.token.replace(f"-{ordinal}.", "-13."))
    assert is_refused(made.token.replace(TERMS[:32], "6" * 32))


def test_plan_s_seed_follows_from_player_game_and_ordinal_alone() -> None:
    def seed(game: str = "g", player: str = "ann", tenant: str = "t", ordinal: int = 0, now: float = NOW) -> bytes:
        return issue((NEW,), tenant, game, player, now, TERMS, ordinal=ordinal).seed

    assert seed() == seed(now=NOW + 100)
    others = [seed(game="h"), seed(player="bob"), seed(tenant="u"), seed(ordinal=1)]
    others.append(issue((NEW,), "t", "g", "ann", NOW, TERMS).seed)
    assert len({seed(), *others}) == 6


def test_session_of_a_key_that_others_have_is_theirs_to_open() -> None:
    with pytest.raises(Fault) as caught:
        open_session((NEW,), "t", "g", issue((OLD,), "t", "g", "ann", NOW, TERMS).token, elsewhere={"old"})
    found = (caught.value.status, caught.value.reason, caught.value.retry_after_seconds)
    assert found == (Status.UNAVAILABLE, "OVERLOADED", 1)
