// The bar at the top: what to ask, how, and what to do with the result.

import { h, icon, put, say } from "./dom.js";
import { S } from "./strings.js";

const THEMES = ["auto", "light", "dark"];

/** Return a small menu: a button and what it opens. */
function menu(name, sign, content) {
  const summary = h("summary", { class: "tool", title: name, "aria-label": name }, icon(sign), h("span", { class: "tool-name" }, name));
  const box = h("details", { class: "menu" }, summary, h("div", { class: "menu-body" }, content));
  const shut = (focus) => {
    if (!box.open) return;
    box.open = false;
    if (focus) summary.focus();
  };
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return;
    event.stopPropagation();
    shut(true);
  });
  document.addEventListener("pointerdown", (event) => { if (!box.contains(event.target)) shut(false); });
  box.addEventListener("focusout", (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) shut(false); });
  return { element: box, shut };
}

function themeButton() {
  let stored = "auto";
  try {
    stored = localStorage.getItem("canopy-theme") || "auto";
  } catch (error) {
    stored = "auto";
  }
  const button = h("button", { type: "button", class: "tool", on: { click: turn } });
  function turn() {
    stored = THEMES[(THEMES.indexOf(stored) + 1) % THEMES.length];
    if (stored === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = stored;
    try {
      localStorage.setItem("canopy-theme", stored);
    } catch (error) {
      // The theme then lasts as long as the page.
    }
    show();
    say(S.theme[stored]);
  }
  function show() {
    button.setAttribute("aria-label", S.theme[stored]);
    button.title = S.theme[stored];
    put(button, icon({ auto: "auto", light: "sun", dark: "moon" }[stored]), h("span", { class: "tool-name" }, S.theme[stored]));
  }
  show();
  return button;
}

/**
 * Return the bar.
 * @param {{run: (request: object) => void, stop: () => void, choose: () => void, share: () => void,
 *   save: (kind: string) => void, keys: () => void}} does
 */
export function topBar(does) {
  const box = h("input", { id: "question-box", type: "text", autocomplete: "off", enterkeyhint: "search", spellcheck: "true", dir: "auto", maxlength: "4000" });
  const label = h("label", { class: "hidden", for: "question-box" });
  const modes = ["ask", "search"].map((mode) => h("label", { class: "mode", title: S[mode === "ask" ? "modeAskHint" : "modeSearchHint"] },
    h("input", { type: "radio", name: "mode", value: mode, on: { change: () => name() } }), h("span", null, S[mode])));
  const send = h("button", { type: "submit", class: "primary" });
  const stop = h("button", { type: "button", class: "primary stop", hidden: true, on: { click: does.stop } }, S.stop);
  const field = (id, text, input) => h("p", null, h("label", { for: id }, text), input);
  const count = (id, most) => h("input", { id, type: "number", min: "1", max: most, inputmode: "numeric", placeholder: "auto" });
  const k = count("option-k", "100");
  const budget = count("option-budget", "1000000");
  const rounds = count("option-rounds", "10");
  const select = h("select", { id: "option-select" }, h("option", { value: "" }, S.optionDefault()), h("option", { value: "set" }, S.selectSet), h("option", { value: "paper" }, S.selectPaper));
  const roundsField = field("option-rounds", S.optionRounds, rounds);
  const options = menu(S.options, "sliders", [field("option-k", S.optionK, k), field("option-budget", S.optionBudget, budget), roundsField, field("option-select", S.optionSelect, select)]);
  const saving = menu(S.export, "down", null);
  put(saving.element.querySelector(".menu-body"), ["markdown", "json"].map((kind) => h("button", {
    type: "button", class: "menu-item", on: { click: () => { saving.shut(true); does.save(kind); } },
  }, kind === "json" ? S.exportJson : S.exportMarkdown)));
  const tool = (text, sign, click) => h("button", { type: "button", class: "tool", title: text, "aria-label": text, on: { click } }, icon(sign), h("span", { class: "tool-name" }, text));
  const add = tool(S.addFiles, "plus", does.choose);
  const link = tool(S.share, "link", does.share);
  const result = h("span", { class: "result-tools" }, link, saving.element);

  const mode = () => modes.map((each) => each.firstElementChild).find((each) => each.checked).value;
  function name() {
    const asking = mode() === "ask";
    put(label, asking ? S.boxLabelAsk : S.boxLabelSearch);
    box.placeholder = asking ? S.placeholderAsk : S.placeholderSearch;
    put(send, asking ? S.ask : S.search);
    roundsField.hidden = !asking;
  }
  function request() {
    const chosen = {};
    for (const [key, input] of Object.entries({ k, budget, rounds })) {
      const value = Number.parseInt(input.value, 10);
      if (value > 0 && !(key === "rounds" && mode() === "search")) chosen[key] = value;
    }
    if (select.value) chosen.select = select.value;
    return { mode: mode(), text: box.value.trim(), options: chosen };
  }
  const form = h("form", { role: "search", class: "ask", novalidate: true, on: { submit: (event) => {
    event.preventDefault();
    options.shut(false);
    if (box.value.trim()) does.run(request());
    else { say(S.nothingAsked); box.focus(); }
  } } },
  h("fieldset", { class: "modes" }, h("legend", { class: "hidden" }, S.modeLabel), modes),
  label, box, options.element, send, stop);
  const set = (asked) => {
    modes[asked.mode === "search" ? 1 : 0].firstElementChild.checked = true;
    box.value = asked.text;
    k.value = asked.options.k ?? "";
    budget.value = asked.options.budget ?? "";
    rounds.value = asked.options.rounds ?? "";
    select.value = asked.options.select ?? "";
    name();
  };
  set({ mode: "ask", text: "", options: {} });
  return {
    parts: [h("a", { class: "brand", href: "./" }, h("img", { src: "static/icon.svg", alt: "", width: "22", height: "22" }), h("span", null, S.name)), form,
      h("div", { class: "tools" }, result, add, themeButton(), tool(S.keys, "keyboard", does.keys))],
    box, set,
    busy(on) {
      stop.hidden = !on;
      send.hidden = on;
    },
    hasResult(on) { result.hidden = !on; },
    uploads(on) { add.hidden = !on; },
  };
}
