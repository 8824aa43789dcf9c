// The OIDC side of a CI system: a certified provider (npm oidc-provider) publishes its keys, and
// /ci-token gives a job its token, as GitHub does at ACTIONS_ID_TOKEN_REQUEST_URL.
// Usage: node ci_provider.mjs <folder of node_modules> <port> <secret of the job> <claims as JSON>

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, secret, claims] = process.argv.slice(2);
const require = createRequire(`${folder}/index.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Provider } = await load("oidc-provider");
const { SignJWT, importJWK } = await load("jose");

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), kid: "ci-1", alg: "RS256", use: "sig" };
const issuer = `http://localhost:${port}`;
const provider = new Provider(issuer, { clients: [], jwks: { keys: [key] } });
const signer = await importJWK(key, "RS256");

provider.use(async (context, next) => {
  if (context.path !== "/ci-token") return next();
  if (context.get("authorization") !== `Bearer ${secret}`) {
    context.status = 401;
    return undefined;
  }
  const value = await new SignJWT({ ...JSON.parse(claims) })
    .setProtectedHeader({ alg: "RS256", kid: key.kid })
    .setIssuer(issuer)
    .setAudience(context.query.audience)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime("5m")
    .sign(signer);
  context.body = { value };
  return undefined;
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
