// A certified OpenID provider (oidc-provider) where the tests' staff sign in, until it is stopped.
// node provider.js PORT ISSUER '{"client_id": ..., ...}' '{"<name>": {<what is claimed of them>}, ...}'
// PKCE with S256 is asked of every client, and of the ID token that it says what the groups are. It prints a line once
// it listens.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { Provider } from "oidc-provider";

const [port, issuer, client, users] = process.argv.slice(2);
const known = JSON.parse(users);
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const provider = new Provider(issuer, {
  clients: [{ grant_types: ["authorization_code"], response_types: ["code"], ...JSON.parse(client) }],
  jwks: { keys: [{ ...key, kid: randomUUID(), use: "sig", alg: "RS256" }] },
  cookies: { keys: [randomUUID()] },
  pkce: { methods: ["S256"], required: () => true },
  claims: { openid: ["sub", "groups"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => known[id] && { accountId: id, claims: () => ({ sub: id, ...known[id] }) },
});
// Its pages would fetch their letters from elsewhere, and have no icon.
provider.use(async (ctx, next) => {
  await next();
  if (ctx.path === "/favicon.ico") {
    ctx.status = 204;
  }
  if (typeof ctx.body === "string") {
    ctx.body = ctx.body.replace(/@import url\([^)]*\);/g, "");
  }
});
for (const event of ["authorization.error", "grant.error", "server_error"]) {
  provider.on(event, (_, error) => console.error(`${event}: ${error.error_description ?? error.message}`));
}
provider.listen(Number(port), "127.0.0.1", () => console.log("listens"));
