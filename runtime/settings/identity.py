"""Settings of players, staff and the issuers of their tokens."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.settings.field import setting
from runtime.settings.kinds import choice, flag, integer, secret_text, secrets, text, url, words


@dataclass(frozen=True, kw_only=True, repr=False)
class IdentitySettings:
    """Tokens, logins, issuers and roles."""

    jwt_secret: str = setting(
        secret_text(32),
        "",
        "HS256 secret of players' tokens, which the consumer edge issues and accepts.",
        secret=True,
        needed_by="consumer",
    )
    jwt_old_secrets: tuple[str, ...] = setting(
        secrets(32),
        "",
        "Additional secrets whose tokens are accepted: the next secret before a rotation, and previous ones for "
        "LOGIN_SECONDS, or until their tokens should end.",
        secret=True,
    )
    login_secret: str = setting(
        secret_text(32),
        "",
        "Key of the hashes that count sent login codes and wrong guesses; changing it resets the counts. Empty: "
        "JWT_SECRET.",
        secret=True,
    )
    jwt_staff_secret: str = setting(
        secret_text(32),
        "",
        "HS256 secret of staff tokens. Only the admin edge needs it. Empty with DEVELOPMENT=on: JWT_SECRET.",
        secret=True,
    )
    jwt_staff_old_secrets: tuple[str, ...] = setting(
        secrets(32), "", "Additional staff secrets, as JWT_OLD_SECRETS.", secret=True
    )
    jwt_issuer: str = setting(text(), "tombola", "`iss` of these tokens.")
    jwt_audience: str = setting(text(), "tombola", "`aud` of players' tokens, for the consumer edge.")
    jwt_staff_audience: str = setting(text(), "tombola-staff", "`aud` of staff tokens, for the admin edge.")
    token_seconds_max: int = setting(
        integer(1, 3660 * 86400, "seconds"),
        "2592000",
        "Maximum life of an accepted token, from any issuer. Core's value also applies: it remembers revocations for "
        "that long.",
    )
    player_token_seconds: int = setting(
        integer(1, 86400, "seconds"), "900", "Life of a player's token: the edge's value, limited by Core's."
    )
    refresh_token_seconds: int = setting(
        integer(1, 366 * 86400, "seconds"), "2592000", "Life of a refresh token; each use issues a new one."
    )
    login_seconds: int = setting(
        integer(60, 3660 * 86400, "seconds"),
        "7776000",
        "Maximum duration of a login, regardless of refreshes. Core's value applies, as for REFRESH_TOKEN_SECONDS.",
    )
    jwks_url: str = setting(
        url("https", "http"), "", "Keys of an external issuer whose RS256, ES256 and EdDSA tokens are accepted."
    )
    jwks_issuer: str = setting(text(), "", "`iss` of its tokens; required with JWKS_URL.")
    jwks_audience: str = setting(text(), "", "`aud` of its tokens; required with JWKS_URL.")
    jwks_tenants: tuple[str, ...] = setting(
        words(pattern=r"\*|[A-Za-z0-9_.:-]{1,128}", right="ids of tenants, or *"),
        "",
        "Tenants that the issuer may act for, * for all; required with JWKS_URL. A single tenant needs no claim.",
    )
    jwks_tenant_claim: str = setting(text(), "tenant_id", "Claim with the tenant; `a.b` is b within a.")
    jwks_merchant_claim: str = setting(text(), "merchant_id", "Claim with the merchant.")
    jwks_player_claim: str = setting(text(), "sub", "Claim with the player's id. Use one that users cannot choose.")
    jwks_roles_claim: str = setting(text(), "roles", "Claim with the roles: a list, or words.")
    jwks_role_map: tuple[str, ...] = setting(
        words("their=our list", r"[^\s,]+=(admin|designer|reward_manager|platform)", "theirs=ours, ours a role here"),
        "",
        "Maps the issuer's roles to staff roles. A token without a mapped role is a player's.",
    )
    oidc_client_id: str = setting(
        text(),
        "",
        "The dashboard's client id at that issuer, for staff sign-in (docs/reference/dashboard.md). Requires "
        "JWT_STAFF_SECRET.",
    )
    oidc_client_secret: str = setting(text(), "", "The client's secret, if it has one.", secret=True)
    oidc_scopes: tuple[str, ...] = setting(words(), "openid,profile,email", "Scopes requested from the issuer.")
    staff_session_seconds: int = setting(integer(60, 86400, "seconds"), "28800", "How long a dashboard sign-in lasts.")
    api_token_seconds_max: int = setting(
        integer(60, 3660 * 86400, "seconds"), "31622400", "Maximum life of new API tokens."
    )
    development: bool = setting(
        flag(), "off", "Local development only. HEADER_FALLBACK and LOGIN_SENDER=log require it."
    )
    header_fallback: bool = setting(
        flag(), "off", "Trust X-Tenant-Id, X-Merchant-Id, X-Player-Id and X-Roles. Requires DEVELOPMENT."
    )
    default_tenant: str = setting(text(), "", "Tenant of public routes and logins that do not name one.")
    show_odds: bool = setting(
        flag(),
        "off",
        "Whether players may read the terms that starts promise: odds, tiers, limits (docs/explanation/fairness.md).",
    )
    role_matrix: str = setting(
        choice("any", "strict"),
        "any",
        "`any`: each management role may use every route; `strict`: each role has its own writes.",
    )

    @property
    def jwt_secrets(self) -> tuple[str, ...]:
        """The secrets of players' tokens: the first signs, all verify. Empty: only external issuers are accepted."""
        return (self.jwt_secret, *self.jwt_old_secrets) if self.jwt_secret else ()

    @property
    def jwt_staff_secrets(self) -> tuple[str, ...]:
        """The secrets of staff tokens. In development they default to the players' secrets."""
        if self.jwt_staff_secret:
            return (self.jwt_staff_secret, *self.jwt_staff_old_secrets)
        return self.jwt_secrets if self.development else ()
