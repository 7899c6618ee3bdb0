/**
 * The page of the API: fetches the OpenAPI document as the reader and lets Swagger UI show it. Readers with a session of
 * the admin see every operation at once; others type an access token, which also signs the calls they try here.
 */

import { byId } from "../shared/dom.js";

const form = byId("docs-form");
const input = byId("docs-token");
const status = byId("docs-status");
const operations = byId("docs-operations");
const SCHEME = "accessToken"; // of the document's security schemes

/** Fetch the document, with an access token or as the session; null if the service wants an access token. */
async function fetchDocument(secret) {
  const response = await fetch(operations.dataset.document, { headers: secret ? { "X-API-KEY": secret } : {} });
  if (response.status === 401) return null;
  const body = await response.json();
  if (!response.ok) throw new Error(body.error?.message ?? `The service answered with status ${response.status}.`);
  return body;
}

/** Show the document; Swagger UI sends the access token with the calls that the reader tries. */
function showOperations(spec, secret) {
  // eslint-disable-next-line no-undef -- a script of the page
  const page = SwaggerUIBundle({
    spec,
    domNode: operations,
    deepLinking: true,
    defaultModelsExpandDepth: 0, // each operation shows its own
    // Otherwise ?url=… and ?configUrl=… could show a foreign document here, for an access token to be typed into.
    queryConfigEnabled: false,
    persistAuthorization: false,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    onComplete: () => {
      if (secret) page.preauthorizeApiKey(SCHEME, secret);
      operations.dataset.ready = "true";
    },
  });
  status.hidden = true;
}

/** Ask for an access token, saying why. */
function ask(reason) {
  form.hidden = false;
  status.hidden = false;
  status.textContent = reason;
  input.focus();
}

async function open(secret) {
  try {
    const found = await fetchDocument(secret);
    if (found !== null) {
      form.hidden = true;
      showOperations(found, secret);
    } else if (secret) {
      input.setAttribute("aria-invalid", "true");
      ask("This access token is unknown, expired or revoked.");
    } else {
      ask("");
    }
  } catch (error) {
    ask(error.message);
  }
}

/** Swagger UI has its dark palette under a class. */
function followScheme({ matches }) {
  document.documentElement.classList.toggle("dark-mode", matches);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  input.removeAttribute("aria-invalid");
  status.textContent = "Loading…";
  open(input.value.trim());
});
const scheme = window.matchMedia("(prefers-color-scheme: dark)");
scheme.addEventListener("change", followScheme);
followScheme(scheme);
open("");
