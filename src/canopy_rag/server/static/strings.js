// Every word that the page itself says. A translation replaces this file.

const number = new Intl.NumberFormat("en");
const one = (n, word, many = `${word}s`) => `${number.format(n)} ${n === 1 ? word : many}`;
const LEAF = { text: ["sentence"], table: ["row"], image: ["image"], video: ["segment"] };

export const LOCALE = "en";

export const S = {
  name: "canopy",
  ask: "Ask",
  search: "Search",
  placeholderAsk: "Ask a question of your files",
  placeholderSearch: "Search your files",
  boxLabelAsk: "Question",
  boxLabelSearch: "Search query",
  modeLabel: "What to do",
  modeAskHint: "a model answers from the evidence",
  modeSearchHint: "the evidence alone, no model",
  stop: "Stop",
  options: "Options",
  optionK: "Items per round",
  optionBudget: "Token budget",
  optionSelect: "Selection",
  optionRounds: "Rounds",
  optionDefault: (value) => (value === null || value === undefined ? "default" : `default: ${value}`),
  selectSet: "set: what stands out among all hits",
  selectPaper: "paper: item by item",
  addFiles: "Add files",
  share: "Copy link",
  shared: "The link is copied.",
  shareFailed: "The link could not be copied; it is in the address bar.",
  export: "Export",
  exportMarkdown: "Markdown",
  exportJson: "JSON",
  theme: { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" },
  keys: "Keyboard",
  close: "Close",
  skip: "Skip to the evidence",

  emptyTitle: "See what was kept, and why.",
  emptyLead:
    "Each text, table, image and video found is shown whole, with the parts that the question needs lit and the rest dimmed.",
  emptyIndex: (info) => {
    const items = info.items || {};
    const parts = ["text", "table", "image", "video"]
      .filter((kind) => items[kind])
      .map((kind) => (kind === "text" ? `${number.format(items[kind])} of text` : one(items[kind], kind)));
    return items.total
      ? `The index holds ${one(items.total, "item")}: ${parts.join(", ")}.`
      : "The index is empty. Add files to begin.";
  },
  sample: [
    ["The lighthouse was built in 1861. ", false],
    ["Its beam reaches 19 nautical miles. ", true],
    ["The keeper's cottage is let in summer.", false],
  ],
  emptyKeys: ["Press ", " to ask, ", " for all keys."],

  answer: "Answer",
  evidence: "Evidence",
  how: "How it was found",
  cited: "Cited",
  keptTitle: "Kept",
  searching: "Searching…",
  reading: "Reading the evidence…",
  writing: "Writing…",
  following: (query) => `Asking further: ${query}`,
  done: "The answer is complete.",
  stopped: "Stopped.",
  noEvidence: "Nothing was found: the index is empty.",
  nothingAsked: "Write a question first.",
  found: (nFragments, nItems) => `${one(nFragments, "fragment")} of ${one(nItems, "item")}`,
  citation: (n, where) => `Fragment ${n}${where ? `, ${where}` : ""}`,
  fragment: (n) => `Fragment ${n}`,
  fragmentCited: (n) => `Fragment ${n}, cited: back to the answer`,
  keptStart: (n) => `kept, fragment ${n}: `,
  keptEnd: " (end of kept) ",
  unknownCitation: (n) => `There is no fragment ${n}`,

  tokens: "Tokens",
  tokensOf: (full) => `of ${number.format(full)} tokens kept`,
  tokensShare: (share) => `${share} %`,
  tokensEstimated: "estimated",
  tokensExact: "counted by the reader's own tokenizer",
  time: "Time",
  stages: {
    route: "route", retrieve: "encode query", search: "search", classify: "classify",
    refine: "refine", critic: "critic", read: "answer",
  },
  seconds: (value) =>
    value < 0.001 ? "< 1 ms" : value < 1 ? `${number.format(Math.round(value * 1000))} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`,
  llmCalls: (usage) =>
    usage.llm_calls
      ? `${one(usage.llm_calls, "model call")}, ${number.format(usage.prompt_tokens)} tokens in, ${number.format(usage.completion_tokens)} out`
      : "no model call",

  rounds: "Rounds",
  round: (n) => `Round ${n}`,
  roundFound: (hits, fresh, held) =>
    [`${one(hits, "item")} found`, `${number.format(fresh)} new in the evidence`, held ? `${number.format(held)} held already` : ""].filter(Boolean).join(", "),
  roundKept: (n) => `${one(n, "fragment")} kept`,
  routed: (kinds) => `in ${kinds.join(", ")} only`,
  sufficient: "The critic: enough to answer.",
  insufficient: "The critic: not enough yet. It asks:",
  noVerdict: "No critic was asked.",
  followUp: "follow-up query",
  stopReasons: {
    sufficient: "Ended: the evidence suffices.",
    last_round: "Ended: this was the last round.",
    repeated_query: "Ended: the follow-up query was asked before.",
    nothing_new: "Ended: nothing new was found.",
    no_critic: "Ended after one round: no critic.",
    deadline: "Ended: the time was up.",
  },
  fallback: (note) => `Degraded, ${note.stage}: ${note.reason}`,

  leftOut: (n) => `Left out: ${one(n, "item")}`,
  leftOutReason: (reason) => `left out: ${reason}`,
  modality: { text: "text", table: "table", image: "image", video: "video" },
  why: {
    refined: "",
    image: "a picture is always shown whole",
    aggregate: "whole: the question needs the whole table",
    whole: "shown whole",
  },
  kept: (n, all, modality) => {
    if (modality === "image") return "whole image";
    const [word] = LEAF[modality] || ["part"];
    return n === all ? (all === 1 ? `the only ${word}` : `all ${one(all, word)} kept`) : `${number.format(n)} of ${one(all, word)} kept`;
  },
  similarity: (value) => `similarity ${value.toFixed(2)}`,
  rank: (rank, round) => `Rank ${rank} of round ${round}`,
  inRound: (round) => `round ${round}`,
  page: (n) => `p. ${n}`,
  pages: (numbers) => (numbers.length === 1 ? `p. ${numbers[0]}` : `pp. ${numbers.join(", ")}`),
  rows: (first, last) => (first === last ? `row ${number.format(first)}` : `rows ${number.format(first)}–${number.format(last)}`),
  sheet: (name) => `sheet ${name}`,
  lastCharacters: (from, to) => `characters ${number.format(from)}–${number.format(to)}`,

  views: "View",
  viewContext: "In context",
  viewKept: "Kept only",
  viewPage: "Page",
  viewTree: "Tree",
  loading: "Loading the original…",
  loadFailed: (reason) => `The original could not be loaded: ${reason}`,
  retry: "Try again",
  unfold: (n, word = "sentence") => `${one(n, word)} dropped`,
  unfoldLabel: (n, word = "sentence") => `Show ${one(n, word)} that were dropped`,

  tableLabel: (title) => `Rows of ${title}`,
  tableKept: "Kept rows",
  previousKept: "Previous kept row",
  nextKept: "Next kept row",
  rowDetail: (row) => `Row ${number.format(row)}`,
  rowNumber: "Row",
  rowKept: (n) => `Row kept, fragment ${n}`,
  rowsDropped: (n) => `${one(n, "row")} dropped`,
  openRow: "Enter opens a row, arrow keys move",

  videoLabel: (title) => `Video ${title}`,
  timeline: "Time line with kept ranges",
  playRange: (n, from, to) => `Fragment ${n}: play from ${from} to ${to}`,
  playKept: "Play only what was kept",
  transcript: "Segments",
  noSubtitles: "no subtitles",
  segmentAt: (at) => `Go to ${at}`,

  pageLabel: (n, title) => `Page ${n} of ${title}`,
  pagePrevious: "Previous page with evidence",
  pageNext: "Next page with evidence",
  pageOf: (n, at, all) => (all === 1 ? `Page ${n}` : `Page ${n} · ${at} of ${all} with evidence`),
  pageWhole: "The source does not say where on the page.",

  imageAlt: (title) => `Image ${title}`,
  imageText: "Text in the picture",

  tree: {
    set: "The parts that stand out among those of all items found are kept; a node all of whose parts are kept is kept whole.",
    paper: "A node is split into those children that are at least as similar to the query as itself, and kept whole when there is none.",
    query: (query) => `Similarities to: ${query}`,
    outcome: { keep: "kept", split: "split", drop: "dropped", none: "not looked at" },
    why: {
      keep: "kept whole", keepLeaf: "kept", split: "split into its parts", drop: "dropped",
      none: "inside a node that was kept or dropped whole",
    },
    versus: (delta) => `${delta >= 0 ? "+" : "−"}${Math.abs(delta).toFixed(2)} to its parent`,
    parts: (n) => one(n, "part"),
    sentences: (n) => one(n, "sentence"),
    failed: (reason) => `The tree could not be loaded: ${reason}`,
  },

  upload: {
    title: "Adding files",
    drop: "Drop files to add them to the index",
    refused: "This server takes no files. Start it with --allow-upload.",
    sending: (share) => `Sending… ${share} %`,
    working: "Reading and indexing…",
    stage: (stage, done, total) => (total ? `${stage} ${number.format(done)} of ${number.format(total)}` : stage),
    state: { waiting: "waiting", indexing: "reading and indexing…", done: "in the index", failed: "not added" },
    items: (n) => `in the index: ${one(n, "item")}`,
    done: (files) =>
      [
        files.indexed ? `${number.format(files.indexed)} indexed` : "",
        files.replaced ? `${number.format(files.replaced)} replaced` : "",
        files.unchanged ? `${number.format(files.unchanged)} unchanged` : "",
        files.ignored ? `${number.format(files.ignored)} ignored` : "",
        files.failed && files.failed.length ? `${number.format(files.failed.length)} failed` : "",
      ].filter(Boolean).join(", ") || "nothing to do",
    failed: (reason) => `Not added: ${reason}`,
    cancel: "Cancel",
    progress: "Progress of adding files",
  },

  key: {
    title: "This server needs its key",
    label: "API key",
    use: "Use the key",
    note: "It stays in this tab.",
    wrong: "The server did not accept this key.",
  },

  errors: {
    network: "The server does not answer. Is canopy serve running?",
    busy: (seconds) => `The server is busy. Try again in ${one(seconds, "second")}.`,
    broken: "The answer broke off.",
    title: "That did not work",
  },

  shortcuts: {
    title: "Keyboard",
    toggle: "Single-letter keys",
    list: [
      ["/", "go to the question"],
      ["Enter", "ask, or search"],
      ["j", "next fragment"],
      ["k", "previous fragment"],
      ["n", "next item"],
      ["p", "previous item"],
      ["b", "back to the answer"],
      ["t", "tree of the item in focus"],
      ["?", "this list"],
      ["Esc", "close, or stop the answer"],
    ],
  },

  markdown: { evidence: "Evidence", leftOut: "Left out", rounds: "Rounds", tokens: "Tokens", kept: "kept" },
};

export const format = { number: (value) => number.format(value), count: one };
