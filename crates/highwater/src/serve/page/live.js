// Swaps the parts of the page that changed, in place: no flicker, no lost scroll position, no lost search.
"use strict";

const from = document.body.dataset.live;
const everyMs = Number(document.body.dataset.everyS) * 1000;
const connection = document.getElementById("connection");

function swap(page) {
  for (const part of document.querySelectorAll("[data-live]")) {
    if (part === document.body) continue;
    const next = page.getElementById(part.id);
    if (!next || part.contains(document.activeElement)) continue;
    for (const details of part.querySelectorAll("details[id]")) {
      const same = next.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = details.open;
    }
    if (next.isEqualNode(part)) continue;
    const fresh = document.importNode(next, true);
    const offsets = Array.from(part.querySelectorAll(".scroll"), (table) => table.scrollLeft);
    part.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((table, at) => { table.scrollLeft = offsets[at] || 0; });
  }
}

async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch(from, { headers: { accept: "text/html" } });
    swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    connection.textContent = "";
  } catch {
    if (!connection.textContent) {
      connection.textContent = "No answer since " + new Date().toISOString().slice(11, 19) + ": the page shows what stood then.";
    }
  }
}

async function keepLooking() {
  await look();
  setTimeout(keepLooking, everyMs);
}

if (from && everyMs > 0) setTimeout(keepLooking, everyMs);
