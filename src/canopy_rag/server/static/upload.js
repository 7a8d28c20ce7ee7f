// Files that are dropped on the page or chosen: sent one by one, then watched until they are in.

import * as api from "./api.js";
import { h, put, say } from "./dom.js";
import { S } from "./strings.js";

const EVERY = 600; // ms between two looks at a file that is being indexed
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Return the panel of uploads, and what takes files. */
export function uploads({ allowed, added }) {
  const list = h("ul", { class: "files" });
  const panel = h("section", { class: "uploads", "aria-label": S.upload.title, hidden: true },
    h("header", null, h("h2", null, S.upload.title),
      h("button", { type: "button", class: "plain square", "aria-label": S.close, on: { click: () => { panel.hidden = true; put(list); } } }, "×")),
    list);
  const veil = h("div", { class: "drop-veil", hidden: true, "aria-hidden": "true" }, h("p", null, S.upload.drop));
  const input = h("input", { type: "file", multiple: true, hidden: true, tabindex: "-1", "aria-hidden": "true", "aria-label": S.addFiles, on: { change: () => { take([...input.files]); input.value = ""; } } });

  async function one(file) {
    const state = h("p", { class: "state" }, S.upload.sending(0));
    const bar = h("progress", { max: "1", value: "0", "aria-label": `${S.upload.progress}: ${file.name}` });
    const row = h("li", null, h("p", { class: "name" }, h("bdi", null, file.name)), bar, state);
    list.append(row);
    const finish = (words, good) => {
      put(state, words);
      row.classList.add(good ? "good" : "bad");
      bar.value = 1;
      bar.hidden = !good;
      say(`${file.name}: ${words}`);
    };
    try {
      const sending = api.upload(file, (share) => {
        bar.value = share * 0.6;
        put(state, S.upload.sending(Math.round(100 * share)));
      });
      let told = await sending.done;
      while (told.state === "waiting" || told.state === "indexing") {
        put(state, S.upload.state[told.state]);
        bar.value = Math.max(bar.value, told.state === "indexing" ? 0.8 : 0.6);
        await pause(EVERY);
        told = await api.uploaded(told.id);
      }
      const failed = told.report?.files?.failed?.[0]?.reason;
      if (told.state === "done" && !failed) finish(S.upload.items(told.items), true);
      else finish(S.upload.failed(told.error || failed || told.state), false);
    } catch (error) {
      finish(S.upload.failed(error.message), false);
    }
  }
  async function take(files) {
    if (!files.length) return;
    panel.hidden = false;
    if (!allowed()) {
      put(list, h("li", { class: "bad" }, h("p", { class: "state" }, S.upload.refused)));
      say(S.upload.refused);
      return;
    }
    for (const file of files) await one(file);
    added();
  }
  const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  let depth = 0;
  addEventListener("dragenter", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth += 1;
    veil.hidden = false;
  });
  addEventListener("dragover", (event) => { if (carries(event)) event.preventDefault(); });
  addEventListener("dragleave", (event) => {
    if (!carries(event)) return;
    depth = Math.max(0, depth - 1);
    veil.hidden = depth === 0;
  });
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    take([...event.dataTransfer.files]);
  });
  document.body.append(panel, veil, input);
  return { choose: () => input.click() };
}
