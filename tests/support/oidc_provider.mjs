// A certified OpenID provider (npm oidc-provider) with three people; its own sign-in pages.
// Usage: node oidc_provider.mjs <folder of node_modules> <port> <redirect URI> …

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, ...redirects] = process.argv.slice(2);
const found = createRequire(`${folder}/index.js`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(found));

const PEOPLE = {
  grace: { email: "Grace@Example.org", email_verified: true, name: "Grace Hopper", groups: ["Staff", "Platform"] },
  eve: { email: "eve@example.org", email_verified: false, name: "Eve", groups: [] },
  mallory: { email_verified: true, name: "Mallory", groups: [] },
};

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: "partita",
      client_secret: "the-secret-of-the-client-0123456789",
      redirect_uris: redirects,
      response_types: ["code"],
      grant_types: ["authorization_code"],
    },
  ],
  scopes: ["openid", "profile", "email", "groups"],
  claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"], groups: ["groups"] },
  pkce: { required: () => true },
  findAccount: (_context, id) => (id in PEOPLE ? { accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) } : undefined),
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
