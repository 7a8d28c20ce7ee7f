// The page as a whole: what was asked, what came back, and the way from one to the other.

import { answerView, citedList, peeks } from "./answer.js";
import * as api from "./api.js";
import { topBar } from "./bar.js";
import { keyList, signIn, singleKeys } from "./dialogs.js";
import { $, goTo, h, put, say } from "./dom.js";
import { itemCard, leftOutRow } from "./item.js";
import * as share from "./share.js";
import { S } from "./strings.js";
import { roundsView, timeView, tokensView } from "./trace.js";
import { uploads } from "./upload.js";

const main = $("main");
const results = new Map(); // address -> result, for going back without asking again
const cited = new Set();
let cards = [];
let result = null;
let running = null;
let about = null;

const openKeys = keyList();
const askKey = signIn();
const files = uploads({ allowed: () => Boolean(about?.uploads), added: () => { api.forget(); results.clear(); learn(); } });
const bar = topBar({
  run: (request) => start(request, true),
  stop: () => running?.abort(),
  choose: () => files.choose(),
  share: copy,
  save: (kind) => result && (kind === "json"
    ? share.save(share.json(result), "application/json", share.fileName(result.question, "json"))
    : share.save(share.markdown(result), "text/markdown", share.fileName(result.question, "md"))),
  keys: openKeys,
});
put($("bar"), bar.parts);
put($("skip"), S.skip);
bar.hasResult(false);
bar.uploads(false);

const answer = answerView(go);
peeks(main, (n) => {
  for (const card of cards) {
    const fragment = card.entry.fragments.find((each) => each.n === n);
    if (fragment) return { fragment, item: card.entry, claim: answer.claim(n) };
  }
  return null;
});

/** The places of a result, filled as it comes. */
const place = {
  question: h("h1", { id: "question", tabindex: "-1", dir: "auto" }),
  status: h("p", { class: "status" }),
  problem: h("div", { class: "problem", role: "alert", hidden: true }),
  cited: h("div", { class: "cited-block" }),
  measures: h("div", { class: "measures" }),
  rounds: h("div"),
  summary: h("p", { class: "summary" }),
  notes: h("div"),
  items: h("div", { class: "items" }),
  leftOut: h("div", { class: "left-out" }),
};
const how = h("section", { class: "how", "aria-labelledby": "how-title" }, h("h2", { id: "how-title" }, S.how), place.measures, place.rounds);
const evidence = h("section", { class: "evidence", id: "evidence", tabindex: "-1", "aria-labelledby": "evidence-title" },
  h("header", { class: "evidence-head" }, h("h2", { id: "evidence-title" }, S.evidence), place.summary), place.notes, place.items, place.leftOut);
const up = h("button", { type: "button", class: "to-answer", hidden: true, on: { click: () => goTo(place.question, { block: "start" }) } }, `↑ ${S.answer}`);
const side = h("div", { class: "side" }, h("div", { class: "asked" }, place.question, place.status, place.problem,
  h("section", { class: "answer", "aria-label": S.answer }, answer.element), place.cited), how);
const columns = h("div", { class: "columns" }, side, evidence);

function welcome() {
  document.title = S.name;
  const holds = h("p", { class: "holds" });
  put(main, h("div", { class: "welcome" }, h("h1", null, S.emptyTitle), h("p", { class: "lead" }, S.emptyLead), legend(), holds,
    h("p", { class: "faint keys-hint" }, S.emptyKeys[0], h("kbd", null, "/"), S.emptyKeys[1], h("kbd", null, "?"), S.emptyKeys[2])));
  bar.hasResult(false);
  learn(holds);
}

function legend() {
  return h("p", { class: "legend-line", dir: "auto" }, S.sample.map(([words, kept]) => (kept ? h("mark", { class: "kept" }, words) : h("span", { class: "dropped" }, words))));
}

async function learn(holds) {
  try {
    about = await api.info();
    bar.uploads(about.uploads);
    if (holds) put(holds, S.emptyIndex(about.index));
  } catch (error) {
    if (error.status === 401) askKey(() => learn(holds));
    else if (holds) put(holds, h("span", { class: "problem" }, error.message));
  }
}

function clear(request) {
  cited.clear();
  cards = [];
  result = null;
  answer.clear();
  document.title = `${request.text} · ${S.name}`;
  put(place.question, request.text);
  for (const name of ["cited", "measures", "rounds", "summary", "notes", "items", "leftOut"]) put(place[name]);
  place.problem.hidden = true;
  how.hidden = true;
  main.classList.toggle("searching", request.mode === "search");
  if (!columns.isConnected) put(main, columns, up);
  bar.hasResult(false);
}

function status(words) {
  put(place.status, words);
  place.status.hidden = !words;
  if (words) say(words);
}

/** Ask or search, and show what comes. */
async function start(request, push) {
  const address = share.toAddress(request);
  if (push) history.pushState(null, "", address);
  running?.abort();
  const control = new AbortController();
  running = control;
  bar.set(request);
  clear(request);
  const stored = push ? null : results.get(address);
  if (stored) return replay(request, stored);
  bar.busy(true);
  columns.setAttribute("aria-busy", "true");
  status(S.searching);
  if (push) place.question.focus({ preventScroll: true });
  scrollTo({ top: 0 });
  try {
    if (request.mode === "search") await searched(request, control.signal);
    else await asked(request, control.signal);
    if (running === control) results.set(address, result);
  } catch (error) {
    if (running === control) failed(error, request);
  }
  if (running !== control) return undefined;
  running = null;
  bar.busy(false);
  columns.removeAttribute("aria-busy");
  return arrive();
}

async function searched(request, signal) {
  const found = await api.search({ query: request.text, ...request.options }, signal);
  signal.throwIfAborted();
  result = { question: request.text, evidence: found, rounds: [] };
  showEvidence(found, request);
  showKept(found);
  finish(found.items.length ? "" : S.noEvidence);
}

/** Where there is no answer, the fragments themselves are the way into the evidence. */
function showKept(found) {
  const all = found.items.flatMap((item) => item.fragments.map((each) => ({ fragment: each.n })));
  put(place.cited, all.length ? [h("h2", null, S.keptTitle), citedList(all, found, go)] : "");
}

async function asked(request, signal) {
  const rounds = new Map();
  let complete = false;
  for await (const [name, data] of api.ask({ question: request.text, ...request.options }, signal)) {
    if (signal.aborted) break;
    if (name === "round") {
      rounds.set(data.number, data);
      how.hidden = false;
      put(place.rounds, roundsView([...rounds.values()]));
      if (data.verdict && !data.verdict.sufficient && data.verdict.follow_up) status(S.following(data.verdict.follow_up));
    } else if (name === "evidence") {
      result = { question: request.text, text: "", evidence: data, rounds: [...rounds.values()] };
      showEvidence(data, request);
      status(S.reading);
    } else if (name === "token") {
      if (!answer.text()) put(place.status, S.writing);
      answer.token(data);
    } else if (name === "answer") {
      complete = true;
      showAnswer(data, request, false);
    } else if (name === "error") {
      throw new api.ApiError((data.error || data).message, data.error || {});
    }
  }
  signal.throwIfAborted();
  if (!complete) throw new api.ApiError(S.errors.broken);
  finish(result.evidence.items.length ? "" : S.noEvidence);
}

function finish(words) {
  put(place.status, words);
  place.status.hidden = !words;
  say(words || (result.text === undefined ? S.found(...counts(result.evidence)) : S.done));
  bar.hasResult(true);
}

function failed(error, request) {
  if (error.name === "AbortError") {
    status(S.stopped);
    if (result) {
      result.text = answer.text();
      bar.hasResult(true);
    }
    return;
  }
  status("");
  if (error.status === 401) return askKey(() => start(request, false));
  place.problem.hidden = false;
  put(place.problem, h("p", null, h("strong", null, S.errors.title), " ", error.message),
    h("button", { type: "button", class: "plain", on: { click: () => start(request, false) } }, S.retry));
}

function replay(request, stored) {
  bar.busy(false);
  running = null;
  columns.removeAttribute("aria-busy");
  if (stored.text === undefined) {
    result = stored;
    showEvidence(stored.evidence, request);
    showKept(stored.evidence);
  } else showAnswer(stored, request, true);
  finish("");
  arrive();
}

const counts = (found) => [found.items.reduce((sum, item) => sum + item.fragments.length, 0), found.items.length];
const same = (one, other) => JSON.stringify(one.items.map((item) => [item.id, item.fragments.map((each) => [each.n, each.node])]))
  === JSON.stringify(other.items.map((item) => [item.id, item.fragments.map((each) => [each.n, each.node])]));

function showEvidence(found, request) {
  answer.evidence(found);
  const rounds = Math.max(1, ...found.items.map((item) => item.round));
  const options = request.options.select ? { select: request.options.select } : {};
  cards = found.items.map((entry) => itemCard(entry, { cited, go, back, options, rounds }));
  put(place.items, cards.map((card) => card.element));
  put(place.summary, found.items.length ? S.found(...counts(found)) : "");
  put(place.notes, (found.fallbacks || []).map((note) => h("p", { class: "degraded" }, S.fallback(note))));
  put(place.leftOut, found.left_out.length
    ? [h("h3", null, S.leftOut(found.left_out.length)), h("ul", null, found.left_out.map((left) => leftOutRow(left, request.text, options)))]
    : []);
  how.hidden = false;
  put(place.measures, found.items.length ? tokensView(found) : "");
  say(S.found(...counts(found)));
}

function showAnswer(told, request, quiet) {
  if (!result || !same(result.evidence, told.evidence)) showEvidence(told.evidence, request);
  result = told;
  answer.finish(told, quiet);
  for (const each of told.citations) cited.add(each.fragment);
  markCited();
  put(place.cited, told.citations.length ? [h("h2", null, S.cited), citedList(told.citations, told.evidence, go, answer.claim)] : "");
  put(place.measures, told.evidence.items.length ? tokensView(told.evidence) : "", timeView(told.usage) || "");
  put(place.rounds, roundsView(told.rounds, told.stop, told.evidence));
}

/** Mark what the answer cites, wherever it stands already; what comes later asks `cited` itself. */
function markCited() {
  for (const element of evidence.querySelectorAll("[data-n]")) {
    const n = Number(element.dataset.n);
    if (!cited.has(n)) continue;
    element.classList.add("cited");
    if (element.classList.contains("n")) element.setAttribute("aria-label", S.fragmentCited(n));
  }
}

/** Lead to a fragment in the evidence. */
async function go(n) {
  const card = cards.find((each) => each.entry.fragments.some((fragment) => fragment.n === n));
  if (!card) return;
  history.replaceState(history.state, "", `#fragment-${n}`);
  const element = await card.reveal(n);
  markCited();
  goTo(element);
}

/** Lead from a fragment to where the answer cites it first. */
function back(n) {
  const citation = $(`cite-${n}`);
  goTo(citation || place.question, { block: citation ? "center" : "start" });
}

/** After a result has come: go where the address points. */
async function arrive() {
  const wanted = /^#fragment-(\d+)$/.exec(location.hash);
  if (wanted && cards.length) {
    await Promise.all(cards.map((card) => card.ready));
    await go(Number(wanted[1]));
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(location.href);
    say(S.shared);
    toast(S.shared);
  } catch (error) {
    toast(S.shareFailed);
  }
}

function toast(words) {
  const box = h("p", { class: "toast", "aria-hidden": "true" }, words);
  document.body.append(box);
  setTimeout(() => box.remove(), 2600);
}

function here() {
  const active = document.activeElement;
  const at = active?.closest?.("[data-n]") || active?.closest?.("[id^='fragment-']");
  return at ? Number(at.dataset.n || at.id.slice(9)) : 0;
}

function stepFragment(by) {
  const all = cards.flatMap((card) => card.entry.fragments.map((each) => each.n)).sort((a, b) => a - b);
  if (!all.length) return;
  const now = here();
  const to = by > 0 ? all.find((n) => n > now) ?? all.at(-1) : all.findLast((n) => n < now) ?? all[0];
  go(to);
}

function cardHere() {
  return cards.findIndex((card) => card.element.contains(document.activeElement));
}

const KEYS = {
  "/": () => { bar.box.focus(); bar.box.select(); },
  j: () => stepFragment(1),
  k: () => stepFragment(-1),
  n: () => cards.length && goTo(cards[Math.min(cardHere() + 1, cards.length - 1)].element, { block: "start" }),
  p: () => cards.length && goTo(cards[Math.max(cardHere() - 1, 0)].element, { block: "start" }),
  b: () => back(here()),
  t: () => cards[Math.max(cardHere(), 0)]?.tree(),
  "?": openKeys,
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    running?.abort();
    return;
  }
  if (!singleKeys() || event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select")) return;
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

new IntersectionObserver((seen) => { up.hidden = seen[0].isIntersecting || seen[0].boundingClientRect.top > 0; }).observe(side);
addEventListener("popstate", () => {
  const request = share.fromAddress(location.search);
  if (request.text) start(request, false);
  else { running?.abort(); running = null; bar.busy(false); bar.set({ mode: "ask", text: "", options: {} }); welcome(); }
});
addEventListener("hashchange", arrive);

const first = share.fromAddress(location.search);
if (first.text) {
  learn();
  start(first, false);
} else {
  welcome();
  bar.box.focus();
}
