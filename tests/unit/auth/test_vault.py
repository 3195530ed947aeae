import pytest

from runtime.outgoing.vault import (
    MASKED,
    Vault,
    VaultError,
    code_context,
    integration_context,
    opened,
    prize_context,
    shown_config,
)
from runtime.settings import Key

OLD, NEW = Key("2025", bytes(range(32))), Key("2026", bytes(range(32, 64)))
CONTEXT = code_context("tenant_a", "prize_a")


def test_sealed_value_opens_in_its_context_and_looks_different_each_time() -> None:
    sealed = Vault([NEW]).seal("SAVE-10-É", CONTEXT)
    assert sealed.key_id == "2026"
    assert b"SAVE" not in sealed.ciphertext
    assert Vault([NEW]).open(*sealed, CONTEXT) == "SAVE-10-É"
    vault = Vault([NEW])
    assert vault.seal("A", CONTEXT).ciphertext != vault.seal("A", CONTEXT).ciphertext


@pytest.mark.parametrize("context", [code_context("tenant_b", "prize_a"), code_context("tenant_a", "prize_b"), ""])
def test_row_moved_elsewhere_does_not_open(context: str) -> None:
    vault = Vault([NEW])
    with pytest.raises(VaultError, match="this context"):
        vault.open(*vault.seal("A", CONTEXT), context)


@pytest.mark.parametrize(
    ("context", "stored"),
    [
        (code_context("tenant_a", "prize_a"), "z9BE+0lkLrW8hS+6U38pqbq/5xu5TbyseK5+XJE2czbEDYo="),
        (prize_context("tenant_a", "prize_a"), "1LV3TK6K8SY874r4lN+1aYZbfMHIyfHE4K2+xGBhojmx3qQ="),
        (integration_context("tenant_a", "integration_a"), "uvI2DtH6j+anPaa3SpITub2pJOQb2BzHhVERLlSm6ajQTH4="),
    ],
)
def test_value_that_is_stored_already_opens(context: str, stored: str) -> None:
    """The bytes of a context are authenticated: another spelling of one would lock every stored secret."""
    assert Vault([OLD]).open_secret(f"sealed:2025:{stored}", context) == "whsec_x"


def test_flipped_bit_does_not_open() -> None:
    vault = Vault([NEW])
    sealed = vault.seal("A", CONTEXT)
    for position in range(len(sealed.ciphertext)):
        broken = bytearray(sealed.ciphertext)
        broken[position] ^= 1
        with pytest.raises(VaultError):
            vault.open(sealed.key_id, bytes(broken), CONTEXT)
    with pytest.raises(VaultError):
        vault.open(sealed.key_id, b"", CONTEXT)


def test_rotation_seals_with_the_first_key_and_opens_with_all() -> None:
    before = Vault([OLD]).seal("A", CONTEXT)
    during = Vault([NEW, OLD])
    assert during.open(*before, CONTEXT) == "A"
    assert during.seal("A", CONTEXT).key_id == "2026"
    with pytest.raises(VaultError, match="'2025'"):
        Vault([NEW]).open(*before, CONTEXT)


def test_fingerprint_from_before_a_rotation_is_found_after_it() -> None:
    [stored] = Vault([OLD]).fingerprints("A", CONTEXT)
    assert stored in Vault([NEW, OLD]).fingerprints("A", CONTEXT)
    assert stored not in Vault([NEW, OLD]).fingerprints("B", CONTEXT)
    assert stored not in Vault([NEW, OLD]).fingerprints("A", code_context("tenant_a", "prize_b"))


def test_configs_secrets_are_sealed_once_and_never_shown() -> None:
    vault = Vault([NEW])
    config = {"url": "https://a.example", "secret": "the one now", "previous_secret": "the one before"}
    stored = vault.seal_config(config, "x")
    assert "the one" not in str(stored) and stored["url"] == "https://a.example"
    assert vault.secrets_of(stored, "x") == ["the one now", "the one before"]
    assert shown_config(stored) == {"url": "https://a.example", "secret_set": True}
    assert shown_config({"url": "u"}) == {"url": "u"}


def test_headers_are_sealed_and_opened_by_name() -> None:
    vault = Vault([OLD])
    fields = {"url": "u", "headers": {"Authorization": "Bearer mine", "X-Shop": "seven", "X-Empty": ""}}
    stored = vault.seal_config(fields, "x")
    assert "mine" not in str(stored) and "seven" not in str(stored)
    assert opened(stored, lambda value: vault.open_secret(value, "x"))[1] == fields
    assert shown_config(stored)["headers"] == dict.fromkeys(fields["headers"], MASKED)
    both = Vault([NEW, OLD])
    for after in (both.resealed(stored, "x"), both.moved(stored, "x", "x")):
        assert opened(after, lambda value: Vault([NEW]).open_secret(value, "x"))[1] == fields
        assert both.resealed(after, "x") == after
    with pytest.raises(VaultError):
        vault.moved(stored, "y", "x")


def test_value_that_looks_sealed_is_sealed_as_it_stands() -> None:
    vault = Vault([NEW])
    stored = vault.seal_config({"secret": "mine", "headers": {"A": "one"}}, "x")
    stolen = {"secret": stored["headers"]["A"], "headers": {"A": stored["secret"], "B": "sealed:1:AAAA", "C": MASKED}}
    after = vault.seal_config(stolen, "x")
    assert vault.secrets_of(after, "x") == [stolen["secret"]]
    assert opened(after, lambda value: vault.open_secret(value, "x"))[1]["headers"] == stolen["headers"]
    assert after["headers"]["C"] == MASKED


def test_plugins_config_may_have_any_headers_and_a_vault_needs_keys() -> None:
    for headers in ("text", ["a"], None, {"n": 7}):
        assert Vault([NEW]).seal_config({"headers": headers}, "x") == {"headers": headers}
    with pytest.raises(ValueError, match="CODE_KEYS"):
        Vault([])
