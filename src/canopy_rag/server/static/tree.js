// An item's tree: how similar each part is to the query, and what was decided there.

import * as api from "./api.js";
import { goTo, h, put } from "./dom.js";
import { clock, excerpt, offsets } from "./places.js";
import { S } from "./strings.js";

const ROOM = 60; // rows that are open at first
const DRAWN = 400; // nodes that were looked at: with more there is no picture
const LEVELS = 14;

/** Return what stands at a node, in a few words. */
function labels(item) {
  if (item.text) {
    const unit = offsets(item.text.text);
    return (node) => excerpt(item.text.text.slice(unit(node.start), unit(node.stop)).replace(/^#+\s+/gm, ""), 160);
  }
  if (item.table) {
    const { rows, start } = item.table;
    const first = item.source?.first_row || 0;
    return (node) => {
      const row = node.stop - node.start === 1 ? rows[node.start - start] : null;
      const where = S.rows(first + node.start + 1, first + node.stop);
      return row ? `${where}: ${excerpt(row.join(" · "), 120)}` : where;
    };
  }
  if (item.video) {
    const words = new Map(item.video.segments.map((each) => [each.start, each.subtitles || ""]));
    return (node) => {
      const where = `${clock(node.start)}–${clock(node.stop)}`;
      return node.children.length || !words.get(node.start) ? where : `${where}: ${excerpt(words.get(node.start), 120)}`;
    };
  }
  return () => item.title;
}

function grow(nodes) {
  const byIndex = new Map(nodes.map((node) => [node.index, { ...node, children: [] }]));
  for (const node of byIndex.values()) {
    node.up = node.parent === null ? null : byIndex.get(node.parent);
    if (node.up) node.up.children.push(node);
    node.depth = node.up ? node.up.depth + 1 : 0;
  }
  for (const node of [...byIndex.values()].reverse()) {
    node.leaves = node.children.reduce((sum, child) => sum + child.leaves, 0) || 1;
  }
  return byIndex;
}

export function treeView(entry, item, options) {
  const root = h("div", { class: "tree" }, h("p", { class: "faint" }, S.loading));
  api.explain({ query: entry.query, item: entry.id, ...options }).then(
    (told) => draw(told.items[0]),
    (error) => put(root, h("p", { class: "problem" }, S.tree.failed(error.message))));

  function draw(explained) {
    const byIndex = grow(explained.nodes);
    const top = byIndex.get(0);
    const all = [...byIndex.values()];
    const values = all.map((node) => node.similarity);
    const [low, high] = [Math.min(0, ...values), Math.max(...values, 0.01)];
    const scale = (value) => `${(100 * (value - low)) / (high - low)}%`;
    const label = labels(item);
    const open = new Set();
    let room = ROOM;
    for (const node of all) {
      if (node.outcome !== "split" || (node.up && !open.has(node.up)) || room < 0) continue;
      open.add(node);
      room -= node.children.length;
    }
    const rows = new Map();
    const list = h("ul", { class: "nodes" });
    put(list, branch(top));
    put(root, h("p", { class: "note" }, S.tree[options.select === "paper" ? "paper" : "set"]),
      h("p", { class: "note", dir: "auto" }, S.tree.query(entry.query)),
      all.length > 1 && all.filter((node) => node.outcome).length <= DRAWN ? picture(top, all) : null, list);

    function branch(node) {
      const sub = h("ul", { id: `node-${entry.rank}-${entry.round}-${node.index}` });
      const fill = () => put(sub, node.children.map(branch));
      if (open.has(node)) fill();
      else sub.hidden = true;
      const toggle = node.children.length
        ? h("button", {
          type: "button", class: "toggle", "aria-expanded": String(open.has(node)), "aria-controls": sub.id,
          "aria-label": `${S.tree.parts(node.children.length)}: ${label(node)}`, on: { click: flip },
        })
        : h("span", { class: "toggle none" });
      function flip() {
        if (open.has(node)) open.delete(node);
        else open.add(node);
        if (open.has(node) && !sub.childElementCount) fill();
        sub.hidden = !open.has(node);
        toggle.setAttribute("aria-expanded", String(open.has(node)));
      }
      const outcome = node.outcome || "none";
      const why = outcome === "keep" && !node.children.length ? "keepLeaf" : outcome;
      const element = h("div", { class: `node ${outcome}`, title: S.tree.why[why] },
        toggle,
        h("span", { class: "outcome" }, S.tree.outcome[outcome]),
        h("span", { class: "label", dir: "auto" }, node.children.length && item.text ? h("span", { class: "size" }, S.tree.sentences(node.leaves)) : null, label(node)),
        h("span", { class: "scale", "aria-hidden": "true" },
          h("i", { class: "bar-fill", css: { left: scale(Math.min(0, node.similarity)), width: `calc(${scale(node.similarity)} - ${scale(0)})` } }),
          node.up ? h("i", { class: "tick", css: { left: scale(node.up.similarity) } }) : null),
        h("span", { class: "value" }, node.similarity.toFixed(2),
          node.up ? h("span", { class: "hidden" }, `, ${S.tree.versus(node.similarity - node.up.similarity)}`) : null));
      const row = h("li", null, element, node.children.length ? sub : null);
      rows.set(node, { element, flip });
      return row;
    }

    function picture(node, everything) {
      const length = node.stop - node.start || 1;
      const seen = everything.filter((each) => each.outcome && each.depth < LEVELS);
      const depth = Math.max(...seen.map((each) => each.depth)) + 1;
      return h("div", { class: "icicle", "aria-hidden": "true", css: { "--levels": depth } }, seen.map((each) => h("div", {
        class: `cell ${each.outcome}`, title: `${each.similarity.toFixed(2)} · ${S.tree.outcome[each.outcome]} · ${label(each)}`,
        css: {
          left: `${(100 * (each.start - node.start)) / length}%`, width: `${(100 * (each.stop - each.start)) / length}%`,
          top: `calc(${each.depth} * var(--level))`, height: each.outcome === "split" ? "var(--level)" : `calc(${depth - each.depth} * var(--level))`,
        },
        on: { click: () => find(each) },
      }, (each.stop - each.start) / length > 0.045 ? h("span", null, each.similarity.toFixed(2)) : null)));
    }

    function find(node) {
      const line = [];
      for (let up = node.up; up; up = up.up) line.unshift(up);
      for (const up of line) if (!open.has(up)) rows.get(up).flip();
      goTo(rows.get(node).element, { block: "nearest" });
    }
  }
  return { element: root, reveal: () => null };
}
