// An authorization server for the tests of sign-in: oidc-provider, whose one user signs in by itself, and
// agrees unless the hint of the client is to refuse.

import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { NODE_MODULES } = process.env;
const { default: Provider } = await import(pathToFileURL(join(NODE_MODULES, "oidc-provider/lib/index.js")).href);

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  scopes: ["openid", "offline_access", "tools"],
  clients: [
    {
      client_id: "known",
      redirect_uris: ["http://127.0.0.1/callback"],
      application_type: "native",
      scope: "openid tools",
    },
  ],
  clientDefaults: { token_endpoint_auth_method: "none" },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      // The audience of a token is the resource that its client asked for (RFC 8707).
      getResourceServerInfo: (_context, resource) => ({
        scope: "tools",
        audience: resource,
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
});

const answer = provider.callback();
server.on("request", async (request, response) => {
  if (!request.url.startsWith("/interaction/")) return answer(request, response);
  const { prompt, params } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "anna" } });
  }
  const grant = new provider.Grant({ accountId: "anna", clientId: params.client_id });
  // A scope that the user refuses is not asked for again.
  const change = params.login_hint === "refuse" ? "reject" : "add";
  grant.addOIDCScope("openid offline_access");
  grant[`${change}OIDCScope`]("tools");
  grant[`${change}ResourceScope`](params.resource, "tools");
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
});
console.log(`ISSUER ${issuer}`);
