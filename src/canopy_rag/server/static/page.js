// A page of a PDF with the kept parts lit and the rest of the page dimmed.

import { fresh, h, icon, put, svg } from "./dom.js";
import { S } from "./strings.js";

/** Return the pages that hold evidence, each with its boxes. */
function lit(item, fragments) {
  const pages = new Map();
  for (const fragment of fragments) {
    for (const place of fragment.source?.places || []) {
      if (!pages.has(place.page)) pages.set(place.page, []);
      pages.get(place.page).push({ n: fragment.n, box: place.box });
    }
  }
  return (item.pages || []).filter((page) => pages.has(page.page)).map((page) => ({ ...page, boxes: pages.get(page.page) }));
}

export const hasPages = (item, fragments) => lit(item, fragments).length > 0;

export function pageView(item, fragments, marker, cited) {
  const pages = lit(item, fragments);
  const root = h("div", { class: "page-view" });
  const frame = h("div", { class: "sheet" });
  const title = h("p", { class: "page-title", "aria-live": "polite" });
  const turn = (by, label, sign) => h("button", { type: "button", class: "plain square", "aria-label": label, on: { click: () => show(now + by) } }, icon(sign));
  const [back, on] = [turn(-1, S.pagePrevious, "left"), turn(1, S.pageNext, "right")];
  let now = 0;
  root.append(h("div", { class: "page-bar" }, back, title, on), frame);
  function show(at) {
    now = Math.min(Math.max(at, 0), pages.length - 1);
    const page = pages[now];
    put(title, S.pageOf(page.page, now + 1, pages.length));
    back.disabled = now === 0;
    on.disabled = now === pages.length - 1;
    back.hidden = on.hidden = pages.length === 1;
    const image = h("img", { src: page.image, alt: S.pageLabel(page.page, item.title), width: Math.round(page.width), height: Math.round(page.height), decoding: "async" });
    const gone = h("p", { class: "problem", hidden: true }, S.loadFailed(page.image));
    image.addEventListener("error", () => { gone.hidden = false; });
    const boxes = page.boxes.filter((each) => each.box);
    put(frame, image, boxes.length ? overlay(page, boxes) : null, marks(page, boxes), gone, boxes.length ? null : h("p", { class: "note" }, S.pageWhole));
  }
  function overlay(page, boxes) {
    const mask = fresh("mask");
    const area = ([x0, y0, x1, y1]) => ({ x: x0 - 2, y: y0 - 2, width: x1 - x0 + 4, height: y1 - y0 + 4, rx: 2 });
    return svg("svg", { class: "veil", viewBox: `0 0 ${page.width} ${page.height}`, "aria-hidden": "true", preserveAspectRatio: "none" },
      svg("mask", { id: mask }, svg("rect", { width: page.width, height: page.height, fill: "#fff" }), boxes.map(({ box }) => svg("rect", { ...area(box), fill: "#000" }))),
      svg("rect", { class: "dark", width: page.width, height: page.height, mask: `url(#${mask})` }),
      boxes.map(({ n, box }) => svg("rect", { class: cited.has(n) ? "box cited" : "box", "data-n": n, ...area(box) })));
  }
  function marks(page, boxes) {
    const seen = new Set();
    return boxes.filter(({ n }) => !seen.has(n) && seen.add(n)).map(({ n, box: [x0, y0] }) => h("span", {
      class: "page-mark", id: `fragment-${n}`, tabindex: "-1", css: { left: `${(100 * (x0 - 2)) / page.width}%`, top: `${(100 * y0) / page.height}%` },
    }, marker(n)));
  }
  show(0);
  return {
    element: root,
    reveal: (n) => {
      const at = pages.findIndex((page) => page.boxes.some((each) => each.n === n));
      if (at >= 0 && at !== now) show(at);
      return frame.querySelector(`[id="fragment-${n}"]`) || frame;
    },
  };
}
