// What opens over the page: the keyboard's list and the sign-in.

import * as api from "./api.js";
import { h, put } from "./dom.js";
import { S } from "./strings.js";

let single = true;
try {
  single = localStorage.getItem("canopy-keys") !== "off";
} catch (error) {
  single = true;
}

/** Whether keys without a modifier do something. */
export const singleKeys = () => single;

function dialog(name, title, ...content) {
  const element = h("dialog", { "aria-labelledby": name }, h("header", null, h("h2", { id: name }, title),
    h("button", { type: "button", class: "plain square", "aria-label": S.close, on: { click: () => element.close() } }, "×")), content);
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  document.body.append(element);
  return element;
}

/** Return what opens the list of keys. */
export function keyList() {
  const toggle = h("input", { type: "checkbox", checked: single, on: { change: () => {
    single = toggle.checked;
    try {
      localStorage.setItem("canopy-keys", single ? "on" : "off");
    } catch (error) {
      // It then holds for this page alone.
    }
  } } });
  const element = dialog("keys-title", S.shortcuts.title,
    h("dl", { class: "keys" }, S.shortcuts.list.map(([key, does]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, does)))),
    h("label", { class: "check" }, toggle, S.shortcuts.toggle));
  return () => element.showModal();
}

/** Return what asks for the key, and goes on with what waited for it. */
export function signIn() {
  const field = h("input", { id: "key", type: "password", autocomplete: "current-password", required: true });
  const wrong = h("p", { class: "problem", role: "alert", hidden: true }, S.key.wrong);
  let next = () => {};
  const element = dialog("key-title", S.key.title, h("form", { on: { submit: async (event) => {
    event.preventDefault();
    try {
      await api.signIn(field.value);
      field.value = "";
      wrong.hidden = true;
      element.close();
      next();
    } catch (error) {
      wrong.hidden = false;
      put(wrong, error.status === 401 ? S.key.wrong : error.message);
      field.select();
    }
  } } }, h("label", { for: "key" }, S.key.label), field, wrong, h("p", { class: "note" }, S.key.note), h("button", { type: "submit", class: "primary" }, S.key.use)));
  return (then) => {
    next = then;
    if (!element.open) element.showModal();
  };
}
