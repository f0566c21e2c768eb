// The official TypeScript client signs in: it finds the issuer from the refusal, registers, and gets a token with PKCE.

import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { NODE_MODULES, SIGN_IN_URL, SIGN_IN_ISSUER } = process.env;
const sdk = (file) => import(pathToFileURL(join(NODE_MODULES, "@modelcontextprotocol/sdk/dist/esm/client", file)).href);
const { Client } = await sdk("index.js");
const { StreamableHTTPClientTransport } = await sdk("streamableHttp.js");
const { UnauthorizedError } = await sdk("auth.js");

const CALLBACK = "http://127.0.0.1/callback";

/// Follows the pages of the issuer as a browser does, up to the page of the client.
async function browse(url) {
  const cookies = new Map();
  for (let pages = 0; pages < 10; pages += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const reply = await fetch(url, { redirect: "manual", headers: { cookie } });
    for (const set of reply.headers.getSetCookie()) {
      const [name, ...value] = set.split(";")[0].split("=");
      cookies.set(name, value.join("="));
    }
    const to = reply.headers.get("location");
    assert.ok(to, `${url} answers ${reply.status}: ${await reply.text()}`);
    url = new URL(to, url);
    if (url.href.startsWith(CALLBACK)) return url.searchParams;
  }
  throw new Error("the sign-in does not end");
}

/// What a client keeps, and what it asked for.
class Session {
  asked = [];
  /// Without `client`, it registers.
  constructor(client, hint = "agree") {
    this.client = client;
    this.hint = hint;
  }
  get redirectUrl() {
    return CALLBACK;
  }
  get clientMetadata() {
    return { client_name: "toolcell test", redirect_uris: [CALLBACK], token_endpoint_auth_method: "none", application_type: "native" };
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.token;
  }
  saveTokens(token) {
    this.token = token;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  async redirectToAuthorization(url) {
    this.asked.push(Object.fromEntries(url.searchParams));
    url.searchParams.set("login_hint", this.hint);
    if (this.hint === "refuse") url.searchParams.set("scope", "openid tools");
    this.answer = await browse(url);
    assert.ok(this.answer.get("code"), this.answer.toString());
  }
}

const transport = (authProvider) => new StreamableHTTPClientTransport(new URL(SIGN_IN_URL), { authProvider });
const client = () => new Client({ name: "toolcell-sign-in", version: "1" });

/// Signs in, and returns a client that has a token.
async function signedIn(session) {
  const first = transport(session);
  await assert.rejects(client().connect(first), UnauthorizedError);
  await first.finishAuth(session.answer.get("code"), session.answer.get("iss") ?? undefined);
  return session;
}

const session = await signedIn(new Session());
assert.deepEqual(
  [session.asked[0].resource, session.asked[0].scope, session.asked[0].code_challenge_method],
  [SIGN_IN_URL, "tools", "S256"],
);
const connected = client();
await connected.connect(transport(session));
const said = await connected.callTool({ name: "everything_test_simple_text", arguments: {} });
assert.equal(said.content[0].text, "This is a simple text response for testing.");
await connected.close();
console.log("typescript client with a sign-in: ok");

// Its user refuses the scope, so that its token lacks it: the server names it, and the client asks the issuer for it.
const lesser = await signedIn(new Session({ client_id: "known" }, "refuse"));
const claims = JSON.parse(Buffer.from(lesser.token.access_token.split(".")[1], "base64url").toString());
assert.deepEqual([claims.iss, claims.aud, claims.scope ?? ""], [SIGN_IN_ISSUER, SIGN_IN_URL, ""]);
const refused = await fetch(SIGN_IN_URL, {
  method: "POST",
  headers: { authorization: `Bearer ${lesser.token.access_token}`, "content-type": "application/json" },
  body: "{}",
});
assert.equal(refused.status, 403);
assert.match(refused.headers.get("www-authenticate"), /^Bearer error="insufficient_scope", .*scope="tools"/);
lesser.hint = "agree";
const stepping = transport(lesser);
await assert.rejects(client().connect(stepping), UnauthorizedError);
assert.equal(lesser.asked.at(-1).scope, "tools");
await stepping.finishAuth(lesser.answer.get("code"), lesser.answer.get("iss") ?? undefined);
const again = client();
await again.connect(transport(lesser));
assert.ok((await again.listTools()).tools.length > 0);
await again.close();
console.log("typescript client without the scope: asks for it");
