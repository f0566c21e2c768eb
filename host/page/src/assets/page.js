// @ts-check
// The live parts of the page. Everything else works without this file.

/** The title without a number. */
const title = document.title.replace(/^\(\d+\) /, "");
/** How often the content is fetched at most, in milliseconds. */
const PAUSE = 1000;

/** @typedef {{ events: number, waiting: number }} Change */

/** @type {Change | undefined} */
let known;
let isStale = false;
let isFetching = false;

/** Shows how many approvals wait, in the title and beside the link.
 * @param {number} waiting */
function count(waiting) {
  document.title = waiting > 0 ? `(${waiting}) ${title}` : title;
  const mark = document.getElementById("waiting");
  if (mark) {
    mark.textContent = String(waiting);
    mark.hidden = waiting === 0;
  }
}

/** A short tone, if the browser allows one: it does after the user did something on the page. */
function ring() {
  try {
    const sound = new AudioContext();
    const tone = sound.createOscillator();
    const volume = sound.createGain();
    volume.gain.value = 0.05;
    tone.connect(volume).connect(sound.destination);
    tone.start();
    tone.stop(sound.currentTime + 0.15);
    tone.onended = () => void sound.close();
  } catch {
    // Without sound, the title still counts.
  }
}

/** @param {Element} content
 * @returns {boolean} whether the user writes or reads something there that must not move */
function isInUse(content) {
  const at = document.activeElement;
  const isTyping = at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement;
  return (isTyping && content.contains(at)) || !getSelection()?.isCollapsed;
}

/** Fetches this view again, and puts its content in the place of the old one. */
async function refresh() {
  const old = document.querySelector("#content[data-live]");
  if (!old || isFetching) return;
  if (document.hidden || isInUse(old) || old.querySelector("form.answer")) {
    // A question stays as it was read, and says so when it is over.
    if (old.querySelector("form.answer")) await tellIfOver(old);
    isStale = document.hidden || isInUse(old);
    return;
  }
  isFetching = true;
  isStale = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
    if (fresh) {
      const opened = [...old.querySelectorAll("details")].map((one) => one.open);
      const links = [...old.querySelectorAll("a, button, summary")];
      const focused = links.indexOf(/** @type {Element} */ (document.activeElement));
      const target = focused >= 0 ? links[focused].getAttribute("href") : null;
      old.replaceWith(fresh);
      [...fresh.querySelectorAll("details")].forEach((one, at) => {
        if (opened[at] !== undefined) one.open = opened[at];
      });
      if (target !== null) {
        const again = [...fresh.querySelectorAll("a")].find((link) => link.getAttribute("href") === target);
        again?.focus({ preventScroll: true });
      }
      offerCopies();
    }
  } finally {
    setTimeout(() => {
      isFetching = false;
      if (isStale) void refresh();
    }, PAUSE);
  }
}

/** Another approver, or the time, can close a question while it is read.
 * @param {Element} old */
async function tellIfOver(old) {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!fresh.querySelector("form.answer")) {
    old.replaceWith(/** @type {Element} */ (fresh.getElementById("content")));
    say("The question is not open any more");
  }
}

/** @param {string} words */
function say(words) {
  const live = document.getElementById("live");
  if (live) live.textContent = words;
}

/** @param {Change} change */
function take(change) {
  const before = known;
  known = change;
  count(change.waiting);
  if (before && change.waiting > before.waiting) ring();
  if (isFetching) isStale = true;
  else void refresh();
}

/** One of the open pages hears the program, and tells the others: a browser has few connections to a host. */
function follow() {
  // Two servers can have an origin in common.
  const name = `changes ${new URL(".", import.meta.url).pathname}`;
  const others = new BroadcastChannel(name);
  others.onmessage = (message) => take(message.data);
  const hear = () => {
    const changes = new EventSource(new URL("changes", import.meta.url));
    let loss = 0;
    changes.onopen = () => {
      clearTimeout(loss);
      say("Live");
    };
    // The program ends each stream after a while, and is asked again.
    changes.onerror = () => {
      clearTimeout(loss);
      loss = setTimeout(() => say("Not connected"), 3 * PAUSE);
    };
    changes.onmessage = (message) => {
      const change = JSON.parse(message.data);
      others.postMessage(change);
      take(change);
    };
    return new Promise(() => {});
  };
  say("Live");
  void navigator.locks.request(name, hear);
}

function offerCopies() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    if (!(button instanceof HTMLButtonElement) || !navigator.clipboard) continue;
    button.hidden = false;
    button.onclick = async () => {
      const from = document.getElementById(button.dataset.copy ?? "");
      await navigator.clipboard.writeText(from?.textContent ?? "");
      say("Copied");
    };
  }
}

/** j and k go through the calls, / to the filters, a and d to the buttons of an approval. */
function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const at = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || at.closest("input, textarea, select")) return;
    const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("a.open")]);
    const now = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "j" || event.key === "k") {
      const next = rows[event.key === "j" ? now + 1 : Math.max(now - 1, 0)];
      next?.focus();
    } else if (event.key === "/") {
      const first = /** @type {HTMLElement | null} */ (document.querySelector(".filters input"));
      first?.focus();
      event.preventDefault();
    } else {
      // Focused and not pressed: an approval takes a second key.
      const button = document.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
      if (button instanceof HTMLElement) button.focus();
    }
  });
}

/** Files that are dropped on the form are chosen in it. */
function takeDrops() {
  for (const form of document.querySelectorAll("form[data-drop]")) {
    const input = /** @type {HTMLInputElement | null} */ (form.querySelector("input[type=file]"));
    if (!input) continue;
    form.addEventListener("dragover", (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("over");
      const dropped = /** @type {DragEvent} */ (event).dataTransfer;
      if (dropped?.files.length) input.files = dropped.files;
    });
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && isStale) void refresh();
});
offerCopies();
listenToKeys();
takeDrops();
follow();
