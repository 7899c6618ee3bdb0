/** That a search runs, for how long, and the button that ends it. */

import { byId, show } from "../workbench/dom.js";

const TICK_MILLISECONDS = 100;
const SLOW_MILLISECONDS = 500; // what is quicker needs no clock

export class Progress {
  /** @param {() => void} cancel */
  constructor(cancel) {
    this.timer = 0;
    byId("lx-cancel").addEventListener("click", () => {
      byId("lx-cancel").disabled = true;
      cancel();
    });
  }

  start() {
    window.clearInterval(this.timer);
    const started = performance.now();
    byId("lx-cancel").hidden = false;
    byId("lx-cancel").disabled = false;
    byId("lx-rows").setAttribute("aria-busy", "true");
    byId("lx-elapsed").textContent = "";
    this.timer = window.setInterval(() => {
      const passed = performance.now() - started;
      if (passed > SLOW_MILLISECONDS) byId("lx-elapsed").textContent = `${(passed / 1000).toFixed(1)} s …`;
    }, TICK_MILLISECONDS);
  }

  stop() {
    window.clearInterval(this.timer);
    byId("lx-elapsed").textContent = "";
    byId("lx-cancel").hidden = true;
    byId("lx-rows").removeAttribute("aria-busy");
  }

  /** @param {string} text */
  say(text) {
    show(byId("lx-status"), text);
  }
}
