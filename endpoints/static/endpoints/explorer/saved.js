/** The searches that this person has saved: a list of links, a name for the one that is shown, and a way to delete. */

import { button, byId, h, show } from "../shared/dom.js";
import { failureOf, get, post } from "../shared/http.js";

export class SavedSearches {
  /** `query` returns the address's query of the search that is shown; `failed` gets what did not work. */
  constructor({ addresses, query, say, failed }) {
    Object.assign(this, { addresses, query, say, failed });
    byId("lx-saved").addEventListener("toggle", () => {
      if (byId("lx-saved").open) void this.list();
    });
    byId("lx-saved-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.save(byId("lx-saved-name").value.trim());
    });
  }

  list() {
    return this.answered(() => get(this.addresses.searches));
  }

  async save(name) {
    if (!name) {
      byId("lx-saved-name").focus();
      return;
    }
    const isSaved = await this.answered(() => post(this.addresses.save_search, { name, query: this.query() }));
    if (!isSaved) return;
    byId("lx-saved-name").value = "";
    this.say(`Saved as “${name}”.`);
  }

  async delete({ id, name }) {
    if (!(await this.answered(() => post(this.addresses.delete_search, { id })))) return;
    this.say(`“${name}” deleted.`);
    byId("lx-saved-name").focus(); // the button that had the focus is gone
  }

  /** Show the list that the service answers with; whether it did. */
  async answered(send) {
    try {
      const { searches } = await send();
      show(byId("lx-saved-list"), searches.length ? searches.map((search) => this.item(search)) : h("li", {}, "None yet."));
      return true;
    } catch (error) {
      this.failed(failureOf(error));
      return false;
    }
  }

  item({ id, name, query }) {
    const remove = button("lx-mini", () => void this.delete({ id, name }), "×");
    remove.setAttribute("aria-label", `Delete “${name}”`);
    return h("li", { class: "lx-saved-item" }, h("a", { class: "lx-link", href: query }, name), remove);
  }
}
