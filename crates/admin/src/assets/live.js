// Looks again every few seconds and puts the new content in place of the old one. Without this script the browser loads the whole
// page again, if it was asked to (noscript in its head). Fetches only the page that it is on, and runs nothing of what it gets.
(() => {
  "use strict";
  const main = document.querySelector("main[data-every]");
  if (!main) return;
  const every = Number(main.dataset.every) * 1000;
  const state = document.querySelector("[data-state]");
  const calm = state ? state.textContent : "";

  // What has the keyboard is found again by its id or its target.
  const place = (element) => {
    if (!element || !main.contains(element)) return null;
    if (element.id) return "#" + CSS.escape(element.id);
    const href = element.getAttribute("href");
    return href ? '[href="' + CSS.escape(href) + '"]' : null;
  };
  // A field that is written stays, also when the keyboard has gone on to the button.
  const written = () => [...main.querySelectorAll("input, textarea")].some((field) =>
    field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
  const busy = () => {
    const active = document.activeElement;
    return document.hidden || (active && main.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName)) ||
      String(document.getSelection()).length > 0;
  };

  const look = async () => {
    if (written()) {
      if (state) state.textContent = "This page stays as it is while a field is filled. ";
      return;
    }
    if (busy()) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      if (!fresh || busy() || written()) return;
      const focused = place(document.activeElement);
      const open = [...main.querySelectorAll("details[open][id]")].map((element) => element.id);
      main.replaceChildren(...fresh.childNodes);
      open.forEach((id) => { const element = document.getElementById(id); if (element) element.open = true; });
      if (focused) { const element = main.querySelector(focused); if (element) element.focus({ preventScroll: true }); }
      if (state) { state.textContent = calm; state.classList.remove("lost"); }
    } catch {
      if (state) { state.textContent = "The daemon does not answer; what you see is old. "; state.classList.add("lost"); }
    }
  };
  setInterval(look, every);
  document.addEventListener("visibilitychange", look);
})();
