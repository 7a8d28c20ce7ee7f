// How the answer came about: tokens kept of whole, time per stage, rounds, what was left out.

import { h } from "./dom.js";
import { S, format } from "./strings.js";

const SHADES = ["s1", "s2", "s3", "s4", "s5", "s6", "s7"];

/** Return how many tokens were kept of the whole items. */
export function tokensView(evidence) {
  const { tokens, tokens_full: full } = evidence;
  const share = full ? Math.min(1, tokens / full) : 1;
  return h("div", { class: "measure" },
    h("p", null, h("strong", null, format.number(tokens)), ` ${S.tokensOf(full)}`,
      evidence.tokens_are === "estimated" ? h("span", { class: "faint" }, ` · ${S.tokensEstimated}`) : null,
      h("span", { class: "share" }, S.tokensShare(full ? (100 * share < 1 && share > 0 ? "< 1" : Math.round(100 * share)) : 100))),
    h("div", { class: "meter", "aria-hidden": "true" }, h("i", { css: { width: `max(2px, ${100 * share}%)` } })));
}

/** Return the seconds of each stage as one bar with its legend. */
export function timeView(usage) {
  const stages = Object.entries(usage.seconds || {}).filter(([, value]) => value > 0);
  if (!stages.length) return null;
  const total = stages.reduce((sum, [, value]) => sum + value, 0);
  return h("div", { class: "measure" },
    h("p", null, h("strong", null, S.seconds(total)), h("span", { class: "faint" }, ` · ${S.llmCalls(usage)}`)),
    h("div", { class: "stages", "aria-hidden": "true" }, stages.map(([, value], at) => h("i", { class: SHADES[at % SHADES.length], css: { "flex-grow": String((1000 * value) / total) } }))),
    h("ul", { class: "legend" }, stages.map(([name, value], at) => h("li", null,
      h("i", { class: SHADES[at % SHADES.length], "aria-hidden": "true" }), `${S.stages[name] || name} `, h("span", { class: "value" }, S.seconds(value))))));
}

/** Return the rounds as a time line with the critic's follow-up queries. */
export function roundsView(rounds, stop, evidence) {
  const kept = new Map();
  for (const item of evidence ? evidence.items : []) kept.set(item.round, (kept.get(item.round) || 0) + item.fragments.length);
  return h("ol", { class: "rounds" }, rounds.map((round, at) => {
    const verdict = round.verdict;
    return h("li", null,
      h("p", { class: "round-name" }, S.round(round.number), round.routed.length ? h("span", { class: "faint" }, ` ${S.routed(round.routed)}`) : null),
      h("p", { class: "round-query", dir: "auto" }, round.query),
      h("p", { class: "facts" }, h("span", null, S.roundFound(round.hits.length, round.n_new, round.hits.filter((hit) => hit.held).length)), kept.has(round.number) ? h("span", null, S.roundKept(kept.get(round.number))) : null),
      verdict
        ? verdict.sufficient
          ? h("p", { class: "verdict good" }, S.sufficient)
          : h("div", { class: "verdict" }, h("p", null, S.insufficient), verdict.follow_up ? h("p", { class: "follow-up", dir: "auto" }, verdict.follow_up) : null)
        : null,
      round.fallbacks.map((note) => h("p", { class: "degraded", dir: "auto" }, S.fallback(note))),
      at === rounds.length - 1 && stop ? h("p", { class: "stop" }, S.stopReasons[stop] || stop) : null);
  }));
}
