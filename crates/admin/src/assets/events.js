// Follows the events by EventSource and puts a row for each at the top of the list. Values become text, never markup.
(() => {
  "use strict";
  const rows = document.querySelector("tbody[data-feed]");
  if (!rows) return;
  const MOST = 200;
  const state = document.querySelector("[data-state]");
  const calm = state ? state.textContent : "";
  const classes = { delivered: "good", dead: "bad", held: "bad" };

  const make = (name, text, attributes) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    Object.entries(attributes || {}).forEach(([key, value]) => element.setAttribute(key, value));
    return element;
  };
  const late = (ms) => {
    if (ms === null) return "–";
    if (ms < 10) return ms.toFixed(1) + " ms";
    if (ms < 1000) return ms.toFixed(0) + " ms";
    return (ms / 1000).toFixed(1) + " s";
  };
  const clip = (text) => (text.length > 200 ? text.slice(0, 200) + "…" : text);
  const payload = (event) => {
    if (event.value !== undefined) return typeof event.value === "string" ? event.value : JSON.stringify(event.value);
    if (event.payload !== undefined) return event.payload;
    return event.payload_base64 === undefined ? "" : "base64 " + event.payload_base64;
  };

  const show = (event) => {
    const time = new Date(event.at_ms).toISOString();
    const queue = "queues/" + encodeURIComponent(event.queue);
    const cell = (label, child, name) => {
      const td = make("td", undefined, name ? { class: name, "data-label": label } : { "data-label": label });
      td.append(...[].concat(child));
      return td;
    };
    const why = [event.class, event.code, event.message].filter(Boolean).join(" ");
    const text = clip(payload(event));
    const row = make("tr");
    row.append(
      cell("Time", make("time", time.slice(11, 23), { title: time })),
      cell("Queue", make("a", event.queue, { href: queue })),
      cell("Element", make("a", event.id, { class: "mono", href: queue + "/elements/" + encodeURIComponent(event.id) })),
      cell("What", make("span", event.fate, { class: "badge " + (classes[event.fate] || "warn") })),
      cell("Sink", event.sink || ""),
      cell("Late", late(event.late_ms), "n"),
      cell("Attempt", String(event.attempt), "n"),
      cell("Why", text ? [why + " ", make("code", text)] : why, "why"));
    if (event.left_out > 0) {
      const note = make("tr", undefined, { class: "note" });
      note.append(make("td", event.left_out + " events were left out", { colspan: "8" }));
      rows.prepend(note);
    }
    rows.prepend(row);
    while (rows.children.length > MOST) rows.lastElementChild.remove();
    const none = document.getElementById("none");
    if (none) none.remove();
  };

  const source = new EventSource(rows.dataset.feed);
  source.addEventListener("element", (message) => show(JSON.parse(message.data)));
  source.addEventListener("open", () => { if (state) { state.textContent = calm; state.classList.remove("lost"); } });
  source.addEventListener("error", () => {
    if (state) { state.textContent = "The daemon does not answer; what you see is old. "; state.classList.add("lost"); }
  });
  window.addEventListener("pagehide", () => source.close());
})();
