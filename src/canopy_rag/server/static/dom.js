// Elements, made without ever reading markup: every string becomes a text node or an attribute.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "css") {
      for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

/** Return an HTML element; `on` holds listeners, `css` style properties, `data` a data set. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** Return an SVG element. */
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export const $ = (id) => document.getElementById(id);

/** Put other children into an element. */
export const put = (element, ...children) => {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
};

/** A number that no other element of the page has. */
let last = 0;
export const fresh = (prefix) => `${prefix}-${++last}`;

const ICONS = {
  sun: "M12 4V2m0 20v-2m8-8h2M2 12h2m13.700-5.7 1.400-1.400M4.9 19.1l1.400-1.4m0-11.400L4.9 4.9m14.2 14.200-1.400-1.400M12 7.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z",
  moon: "M20 14.500A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  auto: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zm0 0v17M14.5 4.5v15M17 6v12M19.3 9v6",
  plus: "M12 5v14M5 12h14",
  link: "M10 14a4 4 0 0 0 5.7 0l3.300-3.3a4 4 0 0 0-5.700-5.700L12 6.300M14 10a4 4 0 0 0-5.7 0L5 13.300A4 4 0 0 0 10.7 19L12 17.700",
  down: "M12 4v11m0 0 4.500-4.500M12 15l-4.500-4.500M5 20h14",
  keyboard: "M3 6.5h18v11H3zM7 14h10M7 10.3h.01M10.3 10.3h.01M13.7 10.3h.01M17 10.3h.01",
  sliders: "M4 7h9m5 0h2M4 17h2m5 0h9M15.5 4.5v5M8.5 14.5v5",
  close: "M6 6l12 12M18 6 6 18",
  text: "M5 6h14M5 10h14M5 14h14M5 18h8",
  table: "M4 5h16v14H4zM4 10h16M4 14.5h16M10 5v14",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 2.500-2.500L20 17M15.5 9.5h.01",
  video: "M4 6h11v12H4zM15 10.5l5-3v9l-5-3",
  up: "M6 14.5l6-6 6 6",
  next: "M6 9.5l6 6 6-6",
  right: "M9.5 6l6 6-6 6",
  left: "M14.5 6l-6 6 6 6",
  back: "M9 14l-4-4 4-4M5 10h9a5 5 0 0 1 0 10h-2",
};

/** Return a line drawing that says nothing to a screen reader. */
export const icon = (name) =>
  svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, svg("path", { d: ICONS[name] }));

/** Scroll to an element and give it the focus, without motion where motion is unwanted. */
export function goTo(element, { block = "center" } = {}) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (!element.hasAttribute("tabindex") && !/^(A|BUTTON|INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block, inline: "nearest", behavior: calm ? "auto" : "smooth" });
  element.classList.remove("arrived");
  requestAnimationFrame(() => element.classList.add("arrived"));
}

/** Say something to screen readers. */
export function say(text) {
  put($("live"), text);
}

/** Return a panel of tabs: one button each, of which the chosen one is in the tab order. */
export function tabs(label, entries, chosen = 0) {
  const name = fresh("tab");
  const panel = h("div", { role: "tabpanel", id: `${name}-panel`, tabindex: "-1" });
  const buttons = entries.map(([text, mark], at) =>
    h("button", {
      type: "button", role: "tab", id: `${name}-${at}`, "aria-controls": panel.id, class: "tab",
      "aria-selected": "false", tabindex: "-1", "data-view": mark,
      on: { click: () => choose(at), keydown: (event) => move(event, at) },
    }, text));
  const list = h("div", { role: "tablist", "aria-label": label, class: "tabs" }, buttons);
  function move(event, at) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: buttons.length - 1 - at }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const to = (at + step + buttons.length) % buttons.length;
    choose(to);
    buttons[to].focus();
  }
  let now = -1;
  function choose(at) {
    if (at === now) return;
    now = at;
    buttons.forEach((button, other) => {
      button.setAttribute("aria-selected", String(other === at));
      button.tabIndex = other === at ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[at].id);
    entries[at][2](panel);
  }
  return { list, panel, choose, view: (mark) => choose(entries.findIndex((entry) => entry[1] === mark)), now: () => entries[now] && entries[now][1] };
}
