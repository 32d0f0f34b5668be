"use strict";
// Themes, keys, and live content.  Pages work without it, but do not change by themselves.

const root = document.documentElement;
const content = document.getElementById("content");
const trouble = document.getElementById("trouble");
const keys = document.getElementById("keys");

// --- light and dark
try {
  const theme = localStorage.getItem("theme");
  if (theme) root.dataset.theme = theme;
} catch { /* storage is off: the theme of the system */ }
document.getElementById("theme").addEventListener("click", () => {
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* as above */ }
});

// --- live content
function showTrouble(text) {
  trouble.textContent = text;
  trouble.hidden = !text;
  content.classList.toggle("stale", Boolean(text));
}

function replaceContent(html) {
  const active = content.contains(document.activeElement) ? document.activeElement : null;
  const target = active && active.getAttribute("href");
  const row = rows().findIndex((element) => element.classList.contains("here"));
  content.innerHTML = html;
  if (target) {
    const same = [...content.querySelectorAll("a")].find((link) => link.getAttribute("href") === target);
    if (same) same.focus({ preventScroll: true });
  }
  if (row >= 0) markRow(row, false);
}

let source = null;
function listen() {
  if (!content.dataset.live || source) return;
  source = new EventSource(content.dataset.live);
  source.addEventListener("content", (event) => {
    showTrouble("");
    replaceContent(JSON.parse(event.data));
  });
  source.addEventListener("trouble", (event) => showTrouble(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    showTrouble("The console does not respond.");
    // After a refusal a browser does not try again by itself.
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(() => { if (!document.hidden) listen(); }, 3000);
    }
  });
}
function stopListening() {
  if (source) source.close();
  source = null;
}
// A page in the background costs the cluster nothing.
document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
addEventListener("pagehide", stopListening);
addEventListener("pageshow", listen);

// --- keys
function rows() {
  return [...content.querySelectorAll("tbody tr")];
}
function markRow(index, scrolls = true) {
  const all = rows();
  if (!all.length) return;
  const row = all[Math.max(0, Math.min(index, all.length - 1))];
  all.forEach((element) => element.classList.toggle("here", element === row));
  if (scrolls) row.scrollIntoView({ block: "nearest" });
}
function follow(link) {
  if (link) link.click();
}

let goes = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const marked = rows().findIndex((row) => row.classList.contains("here"));
  if (goes) {
    goes = false;
    follow(document.querySelector(`[data-key="${CSS.escape(event.key)}"]`));
    return;
  }
  switch (event.key) {
    case "/": {
      const search = document.querySelector('input[type="search"]');
      if (!search) return;
      search.focus();
      search.select();
      break;
    }
    case "g": goes = true; setTimeout(() => { goes = false; }, 1500); break;
    case "j": markRow(marked + 1); break;
    case "k": markRow(marked < 0 ? 0 : marked - 1); break;
    case "Enter":
      if (marked < 0 || event.target.closest("a, button, summary")) return;
      follow(rows()[marked].querySelector("a"));
      break;
    case "[": follow(document.querySelector('a[rel="prev"]')); break;
    case "]": follow(document.querySelector('a[rel="next"]')); break;
    case "?": keys.showModal(); break;
    default: return;
  }
  event.preventDefault();
});
document.getElementById("keys-button").addEventListener("click", () => keys.showModal());

// --- records
const ROWS_MAX = 1000;
const search = document.getElementById("search");
const table = document.getElementById("records");
if (table) {
  const body = table.tBodies[0];
  const progress = document.getElementById("progress");
  const stop = document.getElementById("stop");
  const showFields = () => {
    const origin = search.elements.from.value;
    for (const name of ["offset", "time"]) {
      search.querySelector(`.of-${name}`).hidden = origin !== name;
    }
  };
  search.elements.from.addEventListener("change", showFields);
  showFields();
  // Empty fields are left out of the address, which is a permanent link.
  search.addEventListener("submit", () => {
    for (const field of search.elements) if (!field.value || field.closest("[hidden]")) field.disabled = true;
  });
  addEventListener("pageshow", () => { for (const field of search.elements) field.disabled = false; });

  const records = new EventSource(table.dataset.stream);
  let isNewest = search.elements.from.value === "new";
  const end = (text) => {
    records.close();
    stop.hidden = true;
    progress.textContent = text;
    table.dataset.state = "ended";
  };
  const count = (state) => {
    const of = state.total ? ` of ${state.total.toLocaleString()}` : "";
    return `${state.shown.toLocaleString()} shown, ${state.scanned.toLocaleString()}${of} read`;
  };
  stop.hidden = false;
  progress.textContent = "reading …";
  records.addEventListener("rows", (event) => {
    const html = JSON.parse(event.data);
    body.insertAdjacentHTML(isNewest ? "afterbegin" : "beforeend", html);
    while (body.rows.length > ROWS_MAX) body.rows[isNewest ? body.rows.length - 1 : 0].remove();
  });
  let last = "";
  records.addEventListener("progress", (event) => {
    last = count(JSON.parse(event.data));
    progress.textContent = last;
  });
  records.addEventListener("end", (event) => end(count(JSON.parse(event.data))));
  records.addEventListener("trouble", (event) => {
    end(last);
    showTrouble(JSON.parse(event.data));
  });
  records.addEventListener("error", () => {
    end(last);
    showTrouble("The console does not respond.");
  });
  stop.addEventListener("click", () => end(`${last}, stopped`));
  addEventListener("pagehide", () => records.close());
}
