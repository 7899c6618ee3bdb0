/**
 * EXPLAIN (ANALYZE, BUFFERS) as a tree that can be read: where the time went, which partitions were touched. The log
 * database's plan of a cluster has no times, because the query is not run for it.
 */

import { counted, h, rounded } from "../shared/dom.js";

/**
 * @typedef {{node: string, relation: string, alias: string, index: string, details: string[], rows_estimated: number,
 *   rows_actual: number, rows_removed: number, loops: number, executed: boolean, ms: number, own_ms: number,
 *   buffers_hit: number, buffers_read: number, partitions_pruned: number, children: PlanNode[]}} PlanNode
 */

const SUSPICIOUS_ESTIMATE = 10; // times off, from where on a better plan might exist
const SHOWN_PARTITIONS = 12;
const SHOWN_CHILDREN = 4; // more are mostly partitions: the slowest of them tell enough

export function planView({ plan, planning_ms: planning, execution_ms: execution, tables }) {
  const isRun = execution !== null;
  const slowest = isRun ? all(plan).reduce((one, other) => (other.own_ms > one.own_ms ? other : one)) : null;
  const times = isRun
    ? `Planned in ${milliseconds(planning)}, run in ${milliseconds(execution)}.`
    : "Planned only, and not run: times and rows of the steps are not known on a cluster.";
  return h(
    "div",
    { class: "wb-plan" },
    h("p", {}, times),
    tables.map(partitions),
    h("ul", { class: "wb-tree" }, item(plan, { whole: Math.max(execution ?? 0, 0.001), slowest, isRun })),
  );
}

function partitions({ table, touched, pruned }) {
  const list = (names) => {
    const rest = names.length - SHOWN_PARTITIONS;
    return names.slice(0, SHOWN_PARTITIONS).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
  };
  const whole = touched.length + pruned.length;
  return h(
    "details",
    { class: "wb-partitions" },
    h("summary", {}, h("code", {}, table), `: ${touched.length} of ${counted(whole, "partition")} touched, ${pruned.length} pruned`),
    h("p", {}, `Touched: ${list(touched) || "none"}`),
    h("p", {}, `Pruned: ${list(pruned) || "none"}`),
  );
}

function item(node, context) {
  const label = `${milliseconds(node.own_ms)} of ${milliseconds(context.whole)}`;
  return h(
    "li",
    { class: node === context.slowest ? "wb-node wb-node-slowest" : "wb-node" },
    h(
      "div",
      { class: "wb-node-head" },
      h("strong", {}, node.node),
      target(node),
      node === context.slowest ? h("span", { class: "wb-badge" }, "slowest step") : null,
    ),
    node.executed
      ? h("meter", { class: "wb-meter", min: 0, max: context.whole, value: Math.min(node.own_ms, context.whole), "aria-label": label })
      : null,
    h("p", { class: "wb-node-facts" }, facts(node, context)),
    node.details.length ? h("ul", { class: "wb-node-details" }, node.details.map((text) => h("li", {}, h("code", {}, text)))) : null,
    children(node.children, context),
  );
}

function children(nodes, context) {
  if (!nodes.length) return null;
  const slowest = [...nodes].sort((one, other) => other.ms - one.ms).slice(0, SHOWN_CHILDREN);
  const shown = nodes.length > SHOWN_CHILDREN + 1 ? nodes.filter((node) => slowest.includes(node)) : nodes;
  const rest = nodes.filter((node) => !shown.includes(node));
  return h("ul", { class: "wb-tree" }, shown.map((node) => item(node, context)), rest.length ? folded(rest, context) : null);
}

function folded(nodes, context) {
  const spent = nodes.reduce((sum, node) => sum + node.ms, 0);
  const steps = context.isRun
    ? `${counted(nodes.length, "faster step")} beside these, ${milliseconds(spent)} together`
    : `${counted(nodes.length, "step")} beside these`;
  const summary = h("summary", {}, steps);
  const list = h("ul", {}, nodes.map((node) => item(node, context)));
  return h("li", { class: "wb-node" }, h("details", { class: "wb-details" }, summary, list));
}

function target({ relation, alias, index }) {
  const parts = [];
  if (relation) parts.push(" on ", h("code", {}, relation));
  if (alias && alias !== relation) parts.push(" as ", h("code", {}, alias));
  if (index) parts.push(" by ", h("code", {}, index));
  return h("span", {}, parts);
}

function facts(node, { isRun }) {
  const pruned = node.partitions_pruned ? `${counted(node.partitions_pruned, "partition")} pruned` : "";
  if (!isRun) return [`${counted(Math.round(node.rows_estimated), "row")} estimated`, pruned].filter(Boolean).join(" · ");
  if (!node.executed) return ["never executed", pruned].filter(Boolean).join(" · ");
  return [
    `${milliseconds(node.own_ms)} itself, ${milliseconds(node.ms)} with its children`,
    estimate(node),
    node.rows_removed ? `${counted(node.rows_removed, "row")} filtered out` : "",
    node.loops > 1 ? `${node.loops} loops` : "",
    `${counted(node.buffers_hit, "page")} from memory, ${node.buffers_read.toLocaleString("en")} read`,
    pruned,
  ]
    .filter(Boolean)
    .join(" · ");
}

function estimate({ rows_actual: actual, rows_estimated: estimated }) {
  const [less, more] = [Math.max(1, Math.min(actual, estimated)), Math.max(1, actual, estimated)];
  const off = more / less >= SUSPICIOUS_ESTIMATE ? ` (${Math.round(more / less).toLocaleString("en")} times off)` : "";
  return `${counted(Math.round(actual), "row")}, ${Math.round(estimated).toLocaleString("en")} estimated${off}`;
}

function milliseconds(value) {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${rounded(value, value >= 10 ? 0 : 2)} ms`;
}

function all(node) {
  return [node, ...node.children.flatMap(all)];
}
