// Where a fragment stands in its source, in words.

import { S } from "./strings.js";

/** Return seconds as 1:02 or 1:02:03; tenths where a range is short. */
export function clock(seconds, tenths = false) {
  const whole = Math.floor(seconds + (tenths ? 0 : 1e-6));
  const h = Math.floor(whole / 3600);
  const m = Math.floor((whole % 3600) / 60);
  const s = whole % 60;
  const two = (n) => String(n).padStart(2, "0");
  const rest = tenths && seconds % 1 >= 0.05 ? `.${Math.floor((seconds % 1) * 10)}` : "";
  return (h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`) + rest;
}

/** Return the place of one fragment: page, sheet and rows, or time; empty where nothing is known. */
export function place(fragment) {
  const source = fragment.source || {};
  const parts = [];
  const pages = [...new Set((source.places || []).map((each) => each.page))];
  if (pages.length) parts.push(S.pages(pages));
  if (source.sheet) parts.push(S.sheet(source.sheet));
  if (source.rows && source.rows.length) parts.push(S.rows(source.rows[0] + 1, source.rows.at(-1) + 1));
  if (source.time) parts.push(`${clock(source.time[0])}–${clock(source.time[1])}`);
  if (source.anchor) parts.push(`#${source.anchor}`);
  if (!parts.length && source.char) parts.push(S.lastCharacters(source.char[0], source.char[1]));
  return parts.join(", ");
}

export const uriOf = (item) => item.fragments[0]?.source?.uri || "";

/** Return the first words of a text, on one line. */
export function excerpt(text, most = 140) {
  const line = (text || "").replace(/^#{1,6}\s+/gm, "").replace(/\s+/g, " ").trim();
  if (line.length <= most) return line;
  const cut = line.slice(0, most);
  const space = cut.lastIndexOf(" ");
  return `${cut.slice(0, space > most * 0.6 ? space : most)}…`;
}

const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) || []);

/** Return of a fragment's sentences or rows the one that says most of what a claim says. */
export function near(text, claim, most = 180) {
  if (!claim || text.length <= most) return excerpt(text, most);
  const said = wordsOf(claim);
  const parts = text.split(/\n+|(?<=[.!?])\s+/).filter((part) => part.trim());
  const share = (part) => [...wordsOf(part)].filter((word) => said.has(word)).length;
  const best = parts.reduce((one, other) => (share(other) > share(one) ? other : one), parts[0]);
  return `${best === parts[0] ? "" : "… "}${excerpt(best, most)}`;
}

/** Return a function from a Python offset (code points) to one of JavaScript (UTF-16 units). */
export function offsets(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (at) => Math.min(at, text.length);
  const units = [];
  let unit = 0;
  for (const char of text) {
    units.push(unit);
    unit += char.length;
  }
  units.push(unit);
  return (at) => units[Math.min(at, units.length - 1)];
}
