// An image item: always whole, with its caption and the words in it.

import { h } from "./dom.js";
import { S } from "./strings.js";

export function imageView(item, fragments, marker, cited) {
  const { caption, ocr, width, height } = item.image;
  const n = fragments[0]?.n;
  const gone = h("p", { class: "problem", hidden: true });
  const picture = h("img", {
    src: item.media, alt: caption || S.imageAlt(item.title), width: width || null, height: height || null, decoding: "async",
    on: { error: () => { gone.hidden = false; gone.textContent = S.loadFailed(item.source?.uri || item.media); } },
  });
  const figure = h("figure", { class: n && cited.has(n) ? "picture kept cited" : "picture kept", id: n ? `fragment-${n}` : null, tabindex: "-1", "data-n": n },
    h("div", { class: "picture-frame" }, picture, n ? marker(n) : null), gone,
    caption ? h("figcaption", { dir: "auto" }, caption) : null,
    ocr ? h("details", null, h("summary", null, S.imageText), h("p", { class: "ocr", dir: "auto" }, ocr)) : null);
  return { element: figure, reveal: () => figure };
}
