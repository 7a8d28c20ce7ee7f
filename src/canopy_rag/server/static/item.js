// One item of the evidence: what it is, how much of it was kept and why, and the original.

import * as api from "./api.js";
import { fresh, h, icon, put, tabs } from "./dom.js";
import { imageView } from "./image.js";
import { hasPages, pageView } from "./page.js";
import { place, uriOf } from "./places.js";
import { S } from "./strings.js";
import { tableView } from "./table.js";
import { keptView, textView } from "./text.js";
import { treeView } from "./tree.js";
import { videoView } from "./video.js";

const VIEWS = { text: textView, table: tableView, image: imageView, video: videoView };

/** Return where in its source the item stands: the pages, sheet and so on of what was kept. */
function whereabouts(entry) {
  const first = entry.fragments[0];
  const parts = [uriOf(entry), ...(entry.section || []).slice(-1)];
  const pages = [...new Set(entry.fragments.flatMap((each) => (each.source?.places || []).map((at) => at.page)))].sort((a, b) => a - b);
  if (pages.length) parts.push(S.pages(pages));
  if (first?.source?.sheet) parts.push(S.sheet(first.source.sheet));
  return parts;
}

/** Return a strip that stands for the whole item, with what was kept lit. */
function strip(entry, item, cited) {
  const [start, length] = [item.start, item.stop - item.start || 1];
  return h("div", { class: "strip", "aria-hidden": "true" }, entry.fragments.map((each) => h("i", {
    class: cited.has(each.n) ? "cited" : null, "data-n": each.n, title: `[${each.n}] ${place(each)}`,
    css: { left: `${(100 * (each.start - start)) / length}%`, width: `max(3px, ${(100 * (each.stop - each.start)) / length}%)` },
  })));
}

/**
 * Return the card of one item.
 * @param {object} entry of the evidence
 * @param {{cited: Set<number>, options: object, back: (n: number) => void, go: (n: number) => void}} page
 */
export function itemCard(entry, page) {
  const name = fresh("item");
  const { cited } = page;
  const marker = (n) => h("button", {
    type: "button", class: "n", "data-n": n, "aria-label": cited.has(n) ? S.fragmentCited(n) : S.fragment(n),
    on: { click: (event) => { event.stopPropagation(); page.back(n); } },
  }, String(n));
  const body = h("div", { class: "item-body" });
  const band = h("div", { class: "item-strip" });
  const entire = entry.n_leaves > 1 && entry.n_leaves_kept === entry.n_leaves;
  const facts = [
    S.kept(entry.n_leaves_kept, entry.n_leaves, entry.modality),
    entry.modality !== "image" && S.why[entry.why],
    S.similarity(entry.similarity),
    page.rounds > 1 ? S.inRound(entry.round) : null,
  ].filter(Boolean);
  const element = h("article", { class: `item of-${entry.modality}${entire ? " entire" : ""}`, id: name, "aria-labelledby": `${name}-title`, tabindex: "-1" },
    h("header", null,
      h("span", { class: "kind", title: S.modality[entry.modality] }, icon(entry.modality), h("span", { class: "hidden" }, `${S.modality[entry.modality]}: `)),
      h("h3", { id: `${name}-title` }, h("bdi", null, entry.title || uriOf(entry))),
      h("p", { class: "where" }, whereabouts(entry).map((part) => h("span", { dir: "auto" }, part))),
      h("p", { class: "facts" }, facts.map((part) => h("span", null, part)))),
    band, body);

  let view = keptView(entry.fragments, marker, cited);
  body.append(view.element);
  let bar = null;
  const ready = api.item(entry.id).then(show, (error) => {
    body.append(h("p", { class: "problem" }, S.loadFailed(error.message)));
  });

  function show(item) {
    const use = (make) => (panel) => {
      view = make();
      put(panel, view.element);
    };
    const kept = entry.modality === "table" ? () => tableView(item, entry.fragments, marker, cited, { keptOnly: true }) : () => keptView(entry.fragments, marker, cited);
    const entries = [[S.viewContext, "context", use(() => VIEWS[entry.modality](item, entry.fragments, marker, cited))]];
    if (entry.modality === "text" || (entry.modality === "table" && entry.n_leaves_kept < entry.n_leaves)) entries.push([S.viewKept, "kept", use(kept)]);
    if (hasPages(item, entry.fragments)) entries.push([S.viewPage, "page", use(() => pageView(item, entry.fragments, marker, cited))]);
    if (item.leaves.length > 1) entries.push([S.viewTree, "tree", use(() => treeView(entry, item, page.options))]);
    bar = tabs(S.views, entries);
    put(body, bar.panel);
    element.querySelector("header").append(bar.list);
    bar.list.hidden = entries.length < 2;
    if (entry.modality === "text" || entry.modality === "table") put(band, strip(entry, item, cited));
    bar.choose(0);
  }

  return {
    element, entry, ready,
    /** Bring a fragment into the page and return its element. */
    async reveal(n) {
      await ready;
      if (bar && bar.now() === "tree") bar.choose(0);
      return view.reveal(n) || element;
    },
    async tree() {
      await ready;
      if (bar) bar.view("tree");
    },
  };
}

/** Return the line of an item that was left out, which can be opened. */
export function leftOutRow(left, query, options) {
  const title = h("span", { class: "left-title", dir: "auto" }, left.id);
  const inside = h("div", { class: "left-body" });
  const box = h("details", { class: "left" },
    h("summary", null, h("span", { class: "rank" }, String(left.rank)), title, h("span", { class: "reason" }, left.reason)), inside);
  const loading = api.item(left.id);
  loading.then((item) => {
    put(title, item.title || item.source.uri);
    title.before(icon(item.modality));
  }, () => {});
  box.addEventListener("toggle", async () => {
    if (!box.open || inside.childElementCount) return;
    try {
      const item = await loading;
      put(inside, h("p", { class: "where" }, h("span", { dir: "auto" }, item.source.uri)),
        VIEWS[item.modality](item, [], () => "", new Set()).element,
        item.leaves.length > 1 ? treeView({ ...left, query, round: `left-${left.id}` }, item, options).element : null);
    } catch (error) {
      put(inside, h("p", { class: "problem" }, S.loadFailed(error.message)));
    }
  });
  return h("li", null, box);
}
