// A table item: sticky header, only the rows in sight in the page, kept rows lit.

import { h, put } from "./dom.js";
import { rowsOf } from "./api.js";
import { S } from "./strings.js";

const ROW = 30; // px, as --row in app.css
const SPARE = 12;
const WIDER = 1.15; // than a digit, on average: capitals
const SHORT = 14; // rows: a shorter table has no scroll area of its own

/** Return for every row the number of the fragment that keeps it, or 0. */
function keptRows(nRows, fragments) {
  const kept = new Int32Array(nRows);
  for (const each of fragments) kept.fill(each.n, Math.max(0, each.start), Math.min(nRows, each.stop));
  return kept;
}

/** Return column widths in `ch`, from the header and a spread of rows. */
function widths(header, rows) {
  const n = rows.slice(0, 200).reduce((most, row) => Math.max(most, row.length), Math.max(header.length, 1));
  const step = Math.max(1, Math.floor(rows.length / 200));
  const out = new Array(n).fill(3);
  const look = (row) => row.forEach((cell, at) => { if (at < n) out[at] = Math.max(out[at], Math.min(34, String(cell).length)); });
  look(header);
  for (let at = 0; at < rows.length; at += step) look(rows[at]);
  return out;
}

const isNumber = (cell) => /^[-+−]?[\d.,\s]*\d%?$/.test(cell.trim());

export function tableView(item, fragments, marker, cited, { keptOnly = false } = {}) {
  const { header, caption } = item.table;
  const rows = rowsOf(item);
  const kept = keptRows(rows.length, fragments);
  const first = item.source?.first_row || 0;
  const shown = keptOnly ? [...kept.keys()].filter((row) => kept[row]) : null;
  const nShown = shown ? shown.length : rows.length;
  const rowAt = (place) => (shown ? shown[place] : place);
  const placeOf = (row) => (shown ? shown.indexOf(row) : row);
  const sample = rows.loaded();
  const sizes = widths(header, sample);
  const numeric = sizes.map((_, at) => {
    const cells = sample.slice(0, 50).map((row) => row[at]).filter(Boolean);
    return cells.length > 0 && cells.every(isNumber);
  });

  const body = h("tbody");
  const wide = sizes.reduce((sum, size) => sum + size, 0);
  const table = h("table", {
    css: { width: `max(100%, calc(${wide * WIDER}ch + ${sizes.length * 1.6}rem + 96px))` },
    "aria-rowcount": rows.length + (header.length ? 1 : 0), "aria-colcount": sizes.length + 1 },
    h("caption", { class: "hidden" }, `${S.tableLabel(item.title)}. ${S.openRow}`),
    h("colgroup", null, h("col", { class: "number" }), sizes.map((size, at) => h("col", at < sizes.length - 1 ? { css: { width: `calc(${size * WIDER}ch + 1.6rem)` } } : null))),
    header.length
      ? h("thead", null, h("tr", { "aria-rowindex": 1 }, h("th", { scope: "col", class: "number" }, h("span", { class: "hidden" }, S.rowNumber)),
        sizes.map((_, at) => h("th", { scope: "col", dir: "auto", class: numeric[at] ? "numeric" : null, title: header[at] }, header[at] || ""))))
      : null,
    body);
  const scroll = h("div", { class: "rows", tabindex: "0", role: "region", "aria-label": S.tableLabel(item.title) }, table);
  const rail = h("div", { class: "rail", "aria-hidden": "true" });
  const detail = h("div", { class: "row-detail", "aria-live": "polite" });
  const tall = nShown > SHORT;
  if (tall) scroll.classList.add("tall");
  const starts = fragments.map((each) => each.start).filter((row) => row < rows.length).sort((a, b) => a - b);

  let from = -1;
  let to = -1;
  let focus = -1;
  function draw() {
    const top = Math.max(0, Math.floor(scroll.scrollTop / ROW) - SPARE);
    const fit = tall ? Math.ceil((scroll.clientHeight || 420) / ROW) : nShown;
    const end = Math.min(nShown, top + fit + 2 * SPARE);
    if (top === from && end === to) return;
    [from, to] = [top, end];
    const made = [];
    if (top) made.push(h("tr", { class: "space", "aria-hidden": "true", css: { height: `${top * ROW}px` } }, h("td")));
    for (let place = top; place < end; place += 1) made.push(row(rowAt(place)));
    if (end < nShown) made.push(h("tr", { class: "space", "aria-hidden": "true", css: { height: `${(nShown - end) * ROW}px` } }, h("td")));
    const held = body.contains(document.activeElement) ? document.activeElement.closest("[data-row]")?.dataset.row : undefined;
    put(body, made);
    if (held !== undefined) (body.querySelector(`[data-row="${held}"]`) || scroll).focus({ preventScroll: true });
    rows.need(rowAt(top), end ? rowAt(end - 1) + 1 : 0)?.then(again, (error) => put(detail, h("p", { class: "problem" }, S.loadFailed(error.message))));
  }
  function again() {
    from = -1;
    draw();
  }
  function row(at) {
    const n = kept[at];
    const opens = n && (at === 0 || kept[at - 1] !== n);
    const head = h("th", { scope: "row", class: "number" },
      opens ? marker(n) : n ? h("span", { class: "hidden" }, S.rowKept(n)) : null, h("span", { class: "at" }, String(first + at + 1)));
    return h("tr", {
      class: n ? (cited.has(n) ? "kept cited" : "kept") : "dropped", "aria-rowindex": at + 1 + (header.length ? 1 : 0),
      "data-row": at, id: opens ? `fragment-${n}` : null, tabindex: "-1", "data-n": n || null, "aria-current": at === focus ? "true" : null,
    }, head, sizes.map((_, column) => h("td", { dir: "auto", class: numeric[column] ? "numeric" : null }, rows.at(at) ? rows.at(at)[column] ?? "" : "…")));
  }
  function reach(at) {
    const place = placeOf(at);
    if (place < 0) return null;
    if (tall) scroll.scrollTop = Math.max(0, place * ROW - scroll.clientHeight / 2 + ROW);
    from = -1;
    draw();
    return body.querySelector(`[data-row="${at}"]`);
  }
  function open(at) {
    focus = at;
    put(detail, h("h4", null, S.rowDetail(first + at + 1)),
      h("dl", null, sizes.map((_, column) => [h("dt", { dir: "auto" }, header[column] || String(column + 1)), h("dd", { dir: "auto" }, rows.at(at)?.[column] ?? "")])),
      h("button", { type: "button", class: "plain", on: { click: () => { focus = -1; put(detail); from = -1; draw(); scroll.focus(); } } }, S.close));
    from = -1;
    draw();
  }
  function step(by) {
    const top = Math.floor(scroll.scrollTop / ROW);
    const now = focus >= 0 ? focus : by > 0 ? top - 1 : top;
    const to_ = by > 0 ? starts.find((at) => at > now) ?? starts[0] : starts.findLast((at) => at < now) ?? starts.at(-1);
    if (to_ === undefined) return;
    focus = to_;
    reach(to_)?.focus({ preventScroll: true });
  }
  function keys(event) {
    const at = event.target.closest("[data-row]");
    if (event.key === "Enter" && at && event.target === at) open(Number(at.dataset.row));
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || event.target.closest("button, a")) return;
    event.preventDefault();
    const place = at ? placeOf(Number(at.dataset.row)) + by : Math.floor(scroll.scrollTop / ROW);
    if (place < 0) return scroll.focus();
    if (place < nShown) {
      const next = body.querySelector(`[data-row="${rowAt(place)}"]`) || reach(rowAt(place));
      next.focus({ preventScroll: true });
      const [head, box, area] = [table.tHead?.offsetHeight || 0, next.getBoundingClientRect(), scroll.getBoundingClientRect()];
      if (box.bottom > area.bottom) scroll.scrollTop += box.bottom - area.bottom;
      if (box.top < area.top + head) scroll.scrollTop -= area.top + head - box.top;
    }
  }
  scroll.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  scroll.addEventListener("keydown", keys);
  body.addEventListener("click", (event) => {
    const at = event.target.closest("[data-row]");
    if (at && !event.target.closest("a, button") && !String(getSelection())) open(Number(at.dataset.row));
  });
  if (tall && !shown) {
    for (const each of fragments) {
      rail.append(h("span", { class: cited.has(each.n) ? "cited" : null, css: {
        top: `${(100 * each.start) / rows.length}%`, height: `max(2px, ${(100 * (each.stop - each.start)) / rows.length}%)` } }));
    }
    rail.addEventListener("pointerdown", (event) => {
      const box = rail.getBoundingClientRect();
      reach(Math.min(rows.length - 1, Math.floor(((event.clientY - box.top) / box.height) * rows.length)));
    });
  }
  draw();
  requestAnimationFrame(() => { from = -1; draw(); if (tall && starts.length && scroll.scrollTop === 0 && !body.contains(document.activeElement)) reach(starts[0]); });
  const nKept = kept.reduce((sum, n) => sum + (n ? 1 : 0), 0);
  return {
    element: h("div", { class: "table" },
      caption ? h("p", { class: "caption", dir: "auto" }, caption) : null,
      h("div", { class: tall && !shown ? "table-frame railed" : "table-frame" }, scroll, tall && !shown ? rail : null),
      keptOnly && nKept < rows.length ? h("p", { class: "note" }, S.rowsDropped(rows.length - nKept)) : null,
      tall && !shown && starts.length > 1
        ? h("p", { class: "steps" }, h("button", { type: "button", class: "plain", on: { click: () => step(-1) } }, `↑ ${S.previousKept}`),
          h("button", { type: "button", class: "plain", on: { click: () => step(1) } }, `↓ ${S.nextKept}`))
        : null,
      detail),
    reveal: (n) => {
      const fragment = fragments.find((each) => each.n === n);
      return fragment ? reach(Math.max(0, fragment.start)) : null;
    },
  };
}
