/** Starts the endpoint's page: the editor for everybody who may edit, checks and "Try it" for who may run drafts. */

import { byId } from "./dom.js";
import { DraftForm } from "./draft.js";
import { SqlEditor } from "./editor.js";
import { fitParameterFields } from "./parameter_fields.js";
import { offerFormatting } from "./toolbar.js";
import { Workbench } from "./workbench.js";

/** @type {{id: string | null, may_try: boolean, settings: string[], addresses: Record<string, string>}} */
const page = JSON.parse(byId("workbench").textContent);

function start() {
  const editor = new SqlEditor(byId("id_sql"));
  const draft = new DraftForm(byId("endpoint_form"), page, () => editor.text);
  offerFormatting(editor, page.addresses.format);
  fitParameterFields(draft);
  editor.complete(() => [], () => draft.parameters());
  if (page.may_try) new Workbench(editor, draft, page.addresses).start();
}

// Ace's widget is made when everything has loaded.
if (document.readyState === "complete") start();
else window.addEventListener("load", start);
