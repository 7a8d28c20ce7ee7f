// The address of a result, and the result as a file.

import { h } from "./dom.js";
import { place } from "./places.js";
import { S } from "./strings.js";

const NUMBERS = ["k", "budget", "rounds"];

/** Return what an address asks for: `{mode, text, options}`. */
export function fromAddress(search) {
  const found = new URLSearchParams(search);
  const options = {};
  for (const name of NUMBERS) {
    const value = Number.parseInt(found.get(name), 10);
    if (Number.isInteger(value) && value > 0) options[name] = value;
  }
  if (["set", "paper"].includes(found.get("select"))) options.select = found.get("select");
  return { mode: found.has("s") ? "search" : "ask", text: (found.get("s") ?? found.get("q") ?? "").trim(), options };
}

/** Return the address that asks for the same again. */
export function toAddress({ mode, text, options }) {
  const query = new URLSearchParams();
  query.set(mode === "search" ? "s" : "q", text);
  for (const [name, value] of Object.entries(options)) query.set(name, String(value));
  return `?${query}`;
}

const oneLine = (text) => String(text ?? "").replace(/\s+/g, " ").trim();
/** Escape what Markdown or HTML could read as markup, so that a document's text stays text. */
const escaped = (text) => String(text ?? "").replace(/[\\`*_[\]<>#|~&!]/g, "\\$&");
const quoted = (text) => String(text ?? "").split("\n").map((line) => `> ${escaped(line)}`).join("\n");

/** Return a result as Markdown: question, answer, evidence with places, rounds, measures. */
export function markdown(result) {
  const { evidence } = result;
  const out = [`# ${escaped(oneLine(result.question))}`, ""];
  if (result.text) out.push(result.text.replace(/</g, "\\<").replace(/!\[/g, "!\\["), "");
  out.push(`## ${S.markdown.evidence}`, "");
  for (const item of evidence.items) {
    out.push(`### ${escaped(oneLine(item.title || item.fragments[0]?.source.uri))}`, "");
    const kept = S.kept(item.n_leaves_kept, item.n_leaves, item.modality);
    out.push(`${escaped(item.fragments[0]?.source.uri)} · ${kept} · ${S.similarity(item.similarity)}`, "");
    for (const each of item.fragments) {
      const where = place(each);
      out.push(`**[${each.n}]**${where ? ` ${escaped(where)}` : ""}`, "", quoted(each.text ?? each.media ?? ""), "");
    }
  }
  if (result.rounds?.length) {
    out.push(`## ${S.markdown.rounds}`, "");
    for (const round of result.rounds) {
      const next = round.verdict && !round.verdict.sufficient ? ` → ${escaped(oneLine(round.verdict.follow_up))}` : "";
      out.push(`${round.number}. ${escaped(oneLine(round.query))} (${S.roundFound(round.hits.length, round.n_new, round.hits.filter((hit) => hit.held).length)})${next}`);
    }
    out.push("");
  }
  out.push(`${evidence.tokens} / ${evidence.tokens_full} ${S.tokens.toLowerCase()} (${evidence.tokens_are})`, "");
  return out.join("\n");
}

export const json = (result) => `${JSON.stringify(result, null, 1)}\n`;

/** Hand a text over as a file. */
export function save(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return a file name made of a question. */
export const fileName = (question, end) =>
  `${question.normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "canopy"}.${end}`;
