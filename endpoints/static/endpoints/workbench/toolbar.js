/** The bar above the editor: one button that lays the SQL out anew. */

import { byId, show } from "./dom.js";
import { post, RequestFailed } from "./http.js";

/**
 * @param {import("./editor.js").SqlEditor} editor
 * @param {string} address
 */
export function offerFormatting(editor, address) {
  const button = byId("wb-format");
  const status = byId("wb-format-status");
  const format = async () => {
    const before = editor.text;
    button.disabled = true;
    try {
      const { sql } = await post(address, { sql: before });
      if (editor.text !== before) show(status, "You went on typing, so nothing was changed.");
      else if (sql === before) show(status, "It is laid out already.");
      else {
        editor.replace(sql);
        show(status, "Formatted. Undo with Ctrl+Z.");
      }
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      show(status, error.message);
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener("click", () => void format());
  editor.onChange(() => show(status));
  byId("wb-toolbar").hidden = false;
}
