// The answer as it comes: paragraphs, lists and emphasis, and citations that lead to fragments.
// Nothing else of Markdown is shown: no links, no pictures, so a document cannot call home.

import { $, h, put } from "./dom.js";
import { near, place } from "./places.js";
import { S } from "./strings.js";

const CITATION = /[[［【]\^?(\d{1,6}(?:\s*(?:,|;|、|，|-|–|—|and)\s*\d{1,6})*)\s*[\]］】]/g;
const WIDEST = 20; // fragments that one range may name

/** Return the numbers that a bracket names. */
function numbers(listed) {
  const out = [];
  for (const match of listed.matchAll(/(\d+)(?:\s*[-–—]\s*(\d+))?/g)) {
    const [low, high] = [Number(match[1]), Number(match[2] || match[1])].sort((a, b) => a - b);
    if (high - low > WIDEST) out.push(low, high);
    else for (let n = low; n <= high; n += 1) out.push(n);
  }
  return out;
}

/** Return a text's blocks: `{kind, lines}` of paragraphs, lists, headings and code. */
function blocksOf(text) {
  const out = [];
  let now = null;
  let code = false;
  for (const line of text.split("\n")) {
    if (/^\s*```/.test(line)) {
      code = !code;
      now = code ? { kind: "code", lines: [] } : null;
      if (now) out.push(now);
      continue;
    }
    if (code) {
      now.lines.push(line);
      continue;
    }
    const item = /^\s*(?:([-*•])|(\d+)[.)])\s+(.*)$/.exec(line);
    const head = /^#{1,6}\s+(.*)$/.exec(line);
    if (!line.trim()) now = null;
    else if (head) {
      out.push({ kind: "heading", lines: [head[1]] });
      now = null;
    } else if (item) {
      const kind = item[1] ? "ul" : "ol";
      if (!now || now.kind !== kind) out.push((now = { kind, lines: [], start: Number(item[2] || 1) }));
      now.lines.push(item[3]);
    } else if (now && now.kind === "p") now.lines.push(line);
    else if (now && (now.kind === "ul" || now.kind === "ol")) now.lines[now.lines.length - 1] += ` ${line.trim()}`;
    else out.push((now = { kind: "p", lines: [line] }));
  }
  return out;
}

/** Return emphasis and code of a piece of text. */
function inline(text) {
  const out = [];
  let at = 0;
  for (const match of text.matchAll(/\*\*([^*\n]+)\*\*|`([^`\n]+)`/g)) {
    out.push(text.slice(at, match.index), match[1] !== undefined ? h("strong", null, match[1]) : h("code", null, match[2]));
    at = match.index + match[0].length;
  }
  out.push(text.slice(at));
  return out;
}

/** Return where the answer stands; `fragments` maps numbers to fragments, `go` leads to one. */
export function answerView(go) {
  const element = h("div", { class: "prose", id: "answer-text" });
  let fragments = new Map();
  let titles = new Map();
  let meaning = new Map();
  let drawn = [];
  let spoken = 0;
  let text = "";
  let seen = new Set();
  const claims = new Map(); // fragment -> the words before its first citation

  function citation(n, claim) {
    const fragment = fragments.get(meaning.get(n) ?? n);
    if (!fragment) return h("span", { class: "cite unknown", title: S.unknownCitation(n) }, String(n));
    const first = !seen.has(fragment.n);
    if (first) claims.set(fragment.n, claim);
    seen.add(fragment.n);
    return h("a", {
      class: "cite", href: `#fragment-${fragment.n}`, id: first ? `cite-${fragment.n}` : null, "data-cite": fragment.n,
      "aria-label": S.citation(fragment.n, [titles.get(fragment.n), place(fragment)].filter(Boolean).join(", ")),
      on: { click: (event) => { event.preventDefault(); go(fragment.n); } },
    }, String(n));
  }
  function line(words) {
    const out = [];
    let at = 0;
    for (const match of words.matchAll(CITATION)) {
      const said = words.slice(at, match.index).replace(/\s+$/, "");
      const word = /[^\s*`]+$/.exec(said)?.[0] ?? ""; // stays on one line with its citation
      at = match.index + match[0].length;
      const mark = /^[.,;:!?…]*/.exec(words.slice(at))[0];
      at += mark.length;
      out.push(inline(said.slice(0, said.length - word.length)),
        h("span", { class: "glued" }, word, h("span", { class: "cites" }, numbers(match[1]).map((n) => citation(n, words.slice(0, match.index).slice(-220)))), mark));
    }
    out.push(inline(words.slice(at)));
    return out;
  }
  function block(each) {
    if (each.kind === "code") return h("pre", { dir: "auto" }, h("code", null, each.lines.join("\n")));
    if (each.kind === "heading") return h("p", { dir: "auto", class: "answer-heading" }, line(each.lines[0]));
    if (each.kind === "p") return h("p", { dir: "auto" }, line(each.lines.join("\n")));
    return h(each.kind, { start: each.kind === "ol" && each.start > 1 ? each.start : null }, each.lines.map((words) => h("li", { dir: "auto" }, line(words))));
  }
  function draw(all = false) {
    const blocks = blocksOf(text);
    const sources = blocks.map((each) => JSON.stringify(each));
    let same = 0;
    if (!all) while (same < drawn.length && drawn[same] === sources[same]) same += 1;
    if (same < drawn.length || all) {
      while (element.childElementCount > same) element.lastElementChild.remove();
      seen = new Set([...element.querySelectorAll("a.cite[id]")].map((each) => Number(each.dataset.cite)));
    }
    blocks.slice(same).forEach((each) => element.append(block(each)));
    drawn = sources;
  }
  function speak(done) {
    const rest = text.slice(spoken);
    const end = done ? rest.length : Math.max(...[...rest.matchAll(/[.!?。！？]["”’)\]\d]*\s/g)].map((match) => match.index + match[0].length), 0);
    if (!end) return;
    const words = rest.slice(0, end).replaceAll(CITATION, "").replace(/[*`#]/g, "").trim();
    spoken += end;
    if (words) $("speech").append(h("p", null, words));
  }
  let waiting = 0;
  return {
    element,
    clear() {
      [text, spoken, drawn, seen, meaning] = ["", 0, [], new Set(), new Map()];
      put(element);
      put($("speech"));
    },
    evidence(of) {
      fragments = new Map(of.items.flatMap((item) => item.fragments.map((each) => [each.n, each])));
      titles = new Map(of.items.flatMap((item) => item.fragments.map((each) => [each.n, item.title])));
    },
    token(piece) {
      text += piece;
      if (waiting) return;
      waiting = requestAnimationFrame(() => { waiting = 0; draw(); speak(false); });
    },
    finish(answer, quiet) {
      cancelAnimationFrame(waiting);
      waiting = 0;
      text = answer.text;
      meaning = new Map(answer.citations.map((each) => [each.n, each.fragment]));
      draw(true);
      if (!quiet) speak(true);
    },
    text: () => text,
    claim: (n) => claims.get(n) || "",
  };
}

/** Return the list of cited fragments in their own words. */
export function citedList(citations, evidence, go, claim = () => "") {
  const of = new Map(evidence.items.flatMap((item) => item.fragments.map((each) => [each.n, { ...each, title: item.title, modality: item.modality }])));
  const shown = [...new Set(citations.map((each) => each.fragment))].map((n) => of.get(n)).filter(Boolean);
  return h("ol", { class: "cited-list" }, shown.map((each) => h("li", null, h("a", {
    href: `#fragment-${each.n}`, on: { click: (event) => { event.preventDefault(); go(each.n); } },
  }, h("span", { class: "n" }, String(each.n)),
  h("span", { class: "from" }, h("bdi", null, each.title || each.source.uri), place(each) ? h("span", { class: "at" }, place(each)) : null),
  each.text ? h("q", { dir: "auto" }, near(each.text, claim(each.n))) : null))));
}

/** Show a fragment's words beside its citation while it is pointed at or in focus. */
export function peeks(root, find) {
  const box = h("div", { class: "peek", role: "tooltip", hidden: true });
  document.body.append(box);
  let now = null;
  const hide = () => {
    box.hidden = true;
    if (now) document.querySelectorAll(".pointed").forEach((each) => each.classList.remove("pointed"));
    now = null;
  };
  const show = (event) => {
    const link = event.target.closest?.("[data-cite]");
    if (!link || !root.contains(link)) return hide();
    if (link === now) return undefined;
    hide();
    const found = find(Number(link.dataset.cite));
    if (!found) return undefined;
    now = link;
    const { fragment, item } = found;
    put(box, h("p", { class: "from" }, h("bdi", null, item.title), place(fragment) ? h("span", { class: "at" }, place(fragment)) : null),
      fragment.text ? h("p", { dir: "auto", class: "words" }, near(fragment.text, found.claim, 260)) : h("p", { class: "faint" }, S.modality[item.modality]));
    box.hidden = false;
    const at = link.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(at.left - 16, innerWidth - width - 8))}px`;
    box.style.top = `${at.bottom + height + 12 > innerHeight && at.top > height + 12 ? at.top - height - 6 : at.bottom + 6}px`;
    document.querySelectorAll(`[id="fragment-${fragment.n}"], .strip [data-n="${fragment.n}"], .rail [data-n="${fragment.n}"]`).forEach((each) => each.classList.add("pointed"));
    return undefined;
  };
  root.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") show(event); });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) show(event); });
  root.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { capture: true, passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}
