// A text item: the original by sentence, kept ones lit, dropped ones dimmed, long gaps folded.

import { h } from "./dom.js";
import { offsets } from "./places.js";
import { S } from "./strings.js";

const FOLD = 7; // sentences: a longer dropped run is folded, but for its first and last two
const EDGE = 2;

/** Cut a text into pieces at every boundary of a sentence, a fragment or a paragraph. */
function pieces(item, fragments) {
  const text = item.text.text;
  const unit = offsets(text);
  const leaves = item.leaves.map(([start, stop]) => [unit(start), unit(stop)]);
  const kept = fragments.map((each) => [unit(each.start), unit(each.stop), each.n]);
  const heads = (item.text.headings || []).map((each) => ({ ...each, start: unit(each.start), stop: unit(each.stop) }));
  const breaks = [];
  for (const match of text.matchAll(/\n[^\S\n]*\n\s*/g)) breaks.push([match.index, match.index + match[0].length]);
  const cuts = new Set([0, text.length]);
  for (const [start, stop] of [...leaves, ...kept, ...breaks]) cuts.add(start).add(stop);
  for (const head of heads) cuts.add(head.start).add(head.stop);
  const at = [...cuts].sort((a, b) => a - b);
  const inside = (list) => {
    let next = 0;
    return (start) => {
      while (next < list.length && list[next][1] <= start) next += 1;
      return next < list.length && list[next][0] <= start ? next : -1;
    };
  };
  const leafAt = inside(leaves);
  const keptAt = inside([...kept].sort((a, b) => a[0] - b[0]));
  const order = [...kept].sort((a, b) => a[0] - b[0]);
  const breakAt = inside(breaks);
  const headAt = inside(heads.map((head) => [head.start, head.stop]));
  const out = [];
  for (let i = 0; i + 1 < at.length; i += 1) {
    const [start, stop] = [at[i], at[i + 1]];
    const fragment = keptAt(start);
    const head = headAt(start);
    out.push({
      text: text.slice(start, stop),
      leaf: leafAt(start),
      n: fragment < 0 ? null : order[fragment][2],
      gap: breakAt(start) >= 0,
      head: head < 0 ? null : heads[head],
    });
  }
  return out;
}

/** Gather pieces into paragraphs and headings. */
function blocks(all) {
  const out = [];
  let now = null;
  for (const piece of all) {
    if (piece.gap) {
      now = null;
      continue;
    }
    if (piece.head) {
      if (!now || now.head !== piece.head) out.push((now = { head: piece.head, pieces: [] }));
    } else if (!now || now.head) {
      if (!piece.text.trim()) continue;
      out.push((now = { head: null, pieces: [] }));
    }
    now.pieces.push(piece);
  }
  return out;
}

/** Return the sentences of a dropped run in the middle of which a fold may be made. */
function folds(all) {
  const runs = new Map();
  let run = [];
  const end = () => {
    const sentences = [...new Set(run.filter((piece) => piece.leaf >= 0).map((piece) => piece.leaf))];
    if (sentences.length > FOLD) {
      const hidden = new Set(sentences.slice(EDGE, -EDGE));
      const first = run.findIndex((piece) => hidden.has(piece.leaf));
      const last = run.findLastIndex((piece) => hidden.has(piece.leaf));
      const fold = { n: hidden.size };
      for (let i = first; i <= last; i += 1) runs.set(run[i], fold);
    }
    run = [];
  };
  for (const piece of all) {
    if (piece.n !== null) end();
    else run.push(piece);
  }
  end();
  return runs;
}

/**
 * Return the view of a text.
 * @param {object} item as `/v1/items/{id}` tells it
 * @param {object[]} fragments of the evidence
 * @param {(n: number) => Element} marker makes a fragment's number
 */
export function textView(item, fragments, marker, cited) {
  const all = pieces(item, fragments);
  const hidden = folds(all);
  const whole = item.text.text;
  const root = h("div", { class: "text" });
  const opened = new Set();
  const started = new Set();
  function draw() {
    started.clear();
    root.replaceChildren();
    let folded = null;
    for (const block of blocks(all)) {
      const open = block.pieces.filter((piece) => !hidden.has(piece) || opened.has(hidden.get(piece)));
      const folding = block.pieces.map((piece) => hidden.get(piece)).find((fold) => fold && !opened.has(fold));
      if (!open.length) {
        if (folding !== folded) root.append(unfold((folded = folding)));
        continue;
      }
      const element = block.head
        ? h("p", { class: "heading", dir: "auto", "data-level": block.head.level })
        : h("p", { dir: "auto" });
      if (block.head) element.append(block.head.text || block.pieces.map((piece) => piece.text).join(""));
      else fillParagraph(element, block, () => { folded = folding; return unfold(folding, true); });
      root.append(element);
    }
    if (!root.childElementCount) root.append(h("p", { class: "faint" }, whole.trim() ? whole : "—"));
  }
  function unfold(fold, inline = false) {
    const button = h("button", {
      type: "button", class: inline ? "fold inline" : "fold", "aria-label": S.unfoldLabel(fold.n),
      on: { click: () => { opened.add(fold); draw(); } },
    }, S.unfold(fold.n));
    return inline ? button : h("div", { class: "fold-row" }, button);
  }
  function fillParagraph(element, block, makeFold) {
    let mark = null;
    let made = false;
    for (const piece of block.pieces) {
      if (hidden.has(piece) && !opened.has(hidden.get(piece))) {
        if (!made && root.lastElementChild?.firstElementChild?.classList.contains("fold") !== true) element.append(makeFold());
        made = true;
        mark = null;
        continue;
      }
      if (piece.n === null) {
        mark = null;
        element.append(piece.leaf < 0 ? piece.text : h("span", { class: "dropped" }, piece.text));
        continue;
      }
      if (!mark || Number(mark.dataset.n) !== piece.n) {
        const first = !started.has(piece.n);
        started.add(piece.n);
        mark = h("mark", { class: cited.has(piece.n) ? "kept cited" : "kept", "data-n": piece.n, id: first ? `fragment-${piece.n}` : null, tabindex: first ? -1 : null });
        if (first) mark.append(marker(piece.n));
        element.append(mark);
      }
      mark.append(piece.text);
    }
  }
  draw();
  return { element: root, reveal: (n) => root.querySelector(`[id="fragment-${n}"]`) };
}

/** Return the kept parts alone, one paragraph each: what the reader was given. */
export function keptView(fragments, marker, cited) {
  const root = h("div", { class: "text kept-only" });
  for (const fragment of fragments) {
    root.append(h("p", { dir: "auto" }, h("mark", {
      class: cited.has(fragment.n) ? "kept cited" : "kept", id: `fragment-${fragment.n}`, tabindex: -1, "data-n": fragment.n,
    }, marker(fragment.n), fragment.text || fragment.media || "")));
  }
  return { element: root, reveal: (n) => root.querySelector(`[id="fragment-${n}"]`) };
}
