// A video item: the player, a time line with the kept ranges, and its segments with their words.

import { h } from "./dom.js";
import { clock } from "./places.js";
import { S } from "./strings.js";

const MOST = 60; // segments: of a longer list, dropped runs are folded

export function videoView(item, fragments, marker, cited) {
  const leaves = item.leaves.map(([from, to]) => ({ start: from, stop: to }));
  const [start, stop] = [item.start, item.stop];
  const length = Math.max(stop - start, 0.001);
  const share = (at) => `${(100 * (at - start)) / length}%`;
  const words = new Map((item.video.segments || []).map((each) => [each.start, each.subtitles || ""]));
  const keptBy = (leaf) => fragments.find((each) => each.start < leaf.stop && leaf.start < each.stop);

  const video = h("video", { controls: true, preload: "metadata", playsinline: true, "aria-label": S.videoLabel(item.title) });
  video.src = `${item.media}#t=${(fragments[0]?.start ?? start).toFixed(1)}`;
  const head = h("span", { class: "playhead", "aria-hidden": "true" });
  const line = h("div", { class: "timeline", role: "group", "aria-label": S.timeline },
    h("span", { class: "ticks", "aria-hidden": "true" }, (leaves.length <= MOST * 2 ? leaves.slice(1) : []).map((leaf) => h("i", { css: { left: share(leaf.start) } }))),
    fragments.map((each) => h("button", {
      type: "button", class: cited.has(each.n) ? "range cited" : "range", "data-n": each.n,
      "aria-label": S.playRange(each.n, clock(each.start), clock(each.stop)), title: `${clock(each.start)}–${clock(each.stop)}`,
      css: { left: share(each.start), width: `max(6px, ${(100 * (each.stop - each.start)) / length}%)` },
      on: { click: (event) => { event.stopPropagation(); play(each.start); } },
    }, h("span", null, String(each.n)))),
    head);
  line.addEventListener("click", (event) => {
    const box = line.getBoundingClientRect();
    seek(start + (length * (event.clientX - box.left)) / box.width);
  });

  const only = h("input", { type: "checkbox" });
  const rows = new Map();
  const list = h("ol", { class: "segments" });
  const made = leaves.map((leaf) => {
    const fragment = keptBy(leaf);
    const opens = fragment && leaf.start <= fragment.start;
    const said = words.get(leaf.start) ?? "";
    const row = h("li", {
      class: fragment ? (cited.has(fragment.n) ? "kept cited" : "kept") : "dropped", id: opens ? `fragment-${fragment.n}` : null, tabindex: "-1", "data-n": fragment ? fragment.n : null,
    }, opens ? marker(fragment.n) : null,
    h("button", { type: "button", class: "time", "aria-label": S.segmentAt(clock(leaf.start)), on: { click: () => play(leaf.start) } }, clock(leaf.start)),
    h("p", { dir: "auto" }, said || h("span", { class: "faint" }, S.noSubtitles)));
    rows.set(leaf, row);
    return { leaf, row, kept: Boolean(fragment) };
  });
  fold(list, made);

  function seek(at) {
    const to = Math.min(Math.max(at, 0), stop - 0.05);
    if (video.readyState >= 1) video.currentTime = to;
    else video.addEventListener("loadedmetadata", () => { video.currentTime = to; }, { once: true });
    mark(to);
  }
  function play(at) {
    seek(at);
    video.play().catch(() => {});
  }
  let active = null;
  function mark(at) {
    head.style.left = share(Math.min(Math.max(at, start), stop));
    const leaf = leaves.find((each) => each.start <= at && at < each.stop);
    if (leaf === active) return;
    if (active) rows.get(active)?.removeAttribute("aria-current");
    active = leaf;
    if (leaf) rows.get(leaf)?.setAttribute("aria-current", "true");
  }
  video.addEventListener("timeupdate", () => {
    const at = video.currentTime;
    mark(at);
    if (!only.checked || video.paused || !fragments.length) return;
    if (fragments.some((each) => each.start - 0.05 <= at && at < each.stop)) return;
    const next = fragments.find((each) => each.start > at);
    if (next) video.currentTime = next.start;
    else video.pause();
  });
  mark(fragments[0]?.start ?? start);
  const gone = h("p", { class: "problem", hidden: true });
  video.addEventListener("error", () => { gone.hidden = false; gone.textContent = S.loadFailed(video.error?.message || "media"); });
  return {
    element: h("div", { class: "video" }, video, gone,
      line,
      h("p", { class: "ends", "aria-hidden": "true" }, h("span", null, clock(start)), h("span", null, clock(stop))),
      leaves.every(keptBy) ? null : h("label", { class: "check" }, only, S.playKept),
      item.video.caption ? h("p", { class: "caption", dir: "auto" }, item.video.caption) : null,
      h("h4", { class: "hidden" }, S.transcript), list),
    reveal: (n) => {
      const fragment = fragments.find((each) => each.n === n);
      if (fragment) seek(fragment.start);
      return list.querySelector(`[id="fragment-${n}"]`) || line.querySelector(`[data-n="${n}"]`);
    },
  };
}

/** Put segments into their list; of a long one, fold the dropped ones that have no kept neighbour. */
function fold(list, made) {
  if (made.length <= MOST) {
    list.append(...made.map((each) => each.row));
    return;
  }
  let run = [];
  const end = () => {
    if (run.length > 5) {
      const middle = run.slice(2, -2);
      const row = h("li", { class: "fold-row" }, h("button", {
        type: "button", class: "fold", "aria-label": S.unfoldLabel(middle.length, "segment"),
        on: { click: () => { middle[0].row.tabIndex = -1; row.replaceWith(...middle.map((each) => each.row)); middle[0].row.focus(); } },
      }, S.unfold(middle.length, "segment")));
      list.append(...run.slice(0, 2).map((each) => each.row), row, ...run.slice(-2).map((each) => each.row));
    } else list.append(...run.map((each) => each.row));
    run = [];
  };
  for (const each of made) {
    if (each.kept) {
      end();
      list.append(each.row);
    } else run.push(each);
  }
  end();
}
