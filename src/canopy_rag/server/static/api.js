// The server, as docs/http-api.md describes it. Nothing else of the page calls fetch.

import { S } from "./strings.js";

/** What the server or the network said no with. */
export class ApiError extends Error {
  constructor(message, { status = 0, type = "" } = {}) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

async function failure(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    body = null;
  }
  const said = body && (body.error || body);
  let message = (said && (said.message || said.detail)) || `${response.status} ${response.statusText}`;
  if (response.status === 503 && response.headers.get("Retry-After")) {
    message = S.errors.busy(Number(response.headers.get("Retry-After")));
  }
  return new ApiError(typeof message === "string" ? message : JSON.stringify(message), {
    status: response.status, type: (said && said.type) || "",
  });
}

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(S.errors.network);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

const post = (path, body, signal) =>
  call(path, { method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" } });

export const info = async () => (await call("v1/info")).json();
export const search = async (body, signal) => (await post("v1/search", body, signal)).json();
export const explain = async (body, signal) => (await post("v1/explain", body, signal)).json();

/** Trade the server's key for a cookie that pictures and videos are asked for with, too. */
export const signIn = (key) => post("v1/session", { key });

/** Yield the events of an answer as `[name, data]` in the order in which they come. */
export async function* ask(body, signal) {
  const response = await post("v1/ask", { ...body, stream: true, progress: true }, signal);
  yield* events(response);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(S.errors.broken);
    }
    rest += chunk.done ? "\n\n" : chunk.value.replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = read(block);
      if (event) yield event;
    }
    if (chunk.done) return;
  }
}

function read(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (!data.length || data.join("") === "[DONE]") return null;
  return [name, JSON.parse(data.join("\n"))];
}

const items = new Map();
const address = (id) => `v1/items/${encodeURIComponent(id)}`;
const PAGE = 500; // rows asked for at once
const MOST = 2_000_000; // characters of one text that are shown

/** Return an item as it was indexed, asked for once: a text as a whole, of a table the first rows. */
export function item(id) {
  if (!items.has(id)) {
    const loading = load(id);
    loading.catch(() => items.delete(id));
    items.set(id, loading);
  }
  return items.get(id);
}

async function load(id) {
  const found = await (await call(address(id))).json();
  if (!found.text) return found;
  let at = found.text.stop;
  const parts = [found.text.text];
  while (at < found.stop && at < MOST) {
    const more = (await (await call(`${address(id)}?start=${at}&stop=${Math.min(found.stop, at + 200_000)}`)).json()).text;
    if (more.stop <= at) break;
    parts.push(more.text);
    found.text.headings.push(...more.headings.filter((head) => head.start >= at));
    at = more.stop;
  }
  found.text.text = parts.join("");
  return found;
}

export const forget = () => items.clear();

/** Return the rows of a table, asked for in pages as they come into sight. */
export function rowsOf(found) {
  const { table } = found;
  const rows = new Array(table.n_rows);
  const asked = new Set();
  const keep = (part) => part.rows.forEach((row, at) => { rows[part.start + at] = row; });
  keep(table);
  async function get(page) {
    if (asked.has(page)) return;
    asked.add(page);
    const [start, stop] = [page * PAGE, Math.min(table.n_rows, (page + 1) * PAGE)];
    try {
      keep((await (await call(`${address(found.id)}?start=${start}&stop=${stop}`)).json()).table);
    } catch (error) {
      asked.delete(page);
      throw error;
    }
  }
  return {
    length: table.n_rows,
    at: (row) => rows[row],
    loaded: () => rows.filter(Boolean),
    /** Return a promise if some of the rows still have to come, or null. */
    need(from, to) {
      const pages = [];
      for (let row = from; row < to; row += 1) if (!rows[row]) pages.push(Math.floor(row / PAGE));
      const wanted = [...new Set(pages)].filter((page) => !asked.has(page));
      return wanted.length ? Promise.all(wanted.map(get)) : null;
    },
  };
}

/** Start adding one file; `sent` is called with the share that has been sent, from 0 to 1. */
export function upload(file, sent) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) sent(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(refused(request));
    });
    request.addEventListener("error", () => reject(new ApiError(S.errors.network)));
    request.addEventListener("abort", () => reject(new ApiError(S.stopped)));
  });
  request.open("POST", `v1/uploads?name=${encodeURIComponent(file.name)}`);
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.send(file);
  return { done, cancel: () => request.abort() };
}

export const uploaded = async (id) => (await call(`v1/uploads/${encodeURIComponent(id)}`)).json();

function refused(request) {
  let message = `${request.status} ${request.statusText}`;
  try {
    message = JSON.parse(request.responseText).error.message;
  } catch (error) {
    // Not JSON: the status has to do.
  }
  return new ApiError(message, { status: request.status });
}
