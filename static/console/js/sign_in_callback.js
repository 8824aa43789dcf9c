// The end of a sign-in elsewhere that failed: the code behind the # in words.

import { urls } from "./urls.js";

const REASONS = {
  oidc_state_invalid: "This sign-in was started in another browser, or it took longer than ten minutes. Start again.",
  oidc_denied: "The sign-in was canceled at the provider.",
  oidc_email_missing: "The provider did not send an email address. Ask its administrator to share your address with this site.",
  oidc_email_unverified: "The provider has not verified your email address. Verify it there, then sign in again.",
  oidc_provider_error: "The provider answered unexpectedly. Try again. If it keeps happening, tell your administrator: the server log says why.",
  sign_up_disabled: "You have no account here, and sign-up is closed. Ask for an invitation to a workspace.",
  account_disabled: "Your account is disabled. Ask your administrator.",
};

const told = new URLSearchParams(location.hash.slice(1));
const reason = REASONS[told.get("error")];
if (reason) document.querySelector("[data-reason]").textContent = reason;
if (told.has("code")) location.replace(`${urls.oidcLogin}?flow=cookie`); // a code is for front ends with tokens
history.replaceState(null, "", location.pathname);
