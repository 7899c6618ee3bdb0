/** Tabs by the pattern of the ARIA authoring practices: one is in the tab order, arrow keys choose among them. */

/**
 * @param {HTMLElement} list an element of role tablist; its tabs name their panels in aria-controls
 * @param {(id: string) => void} [chosen] called with the id of the tab that was chosen
 * @returns {(id: string) => void} choose a tab from elsewhere
 */
export function tabs(list, chosen = () => {}) {
  const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=tab]")]);

  const choose = (id) => {
    for (const tab of all) {
      const selected = tab.id === id;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
      if (panel) panel.hidden = !selected;
    }
    chosen(id);
  };

  const step = (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -all.length, End: all.length }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const here = all.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const wrapped = (here + move + all.length) % all.length;
    const next = Math.abs(move) === 1 ? wrapped : move < 0 ? 0 : all.length - 1;
    choose(all[next].id);
    all[next].focus();
  };

  for (const tab of all) tab.addEventListener("click", () => choose(tab.id));
  list.addEventListener("keydown", step);
  choose(all.find((tab) => tab.getAttribute("aria-selected") === "true")?.id ?? all[0].id);
  return choose;
}
