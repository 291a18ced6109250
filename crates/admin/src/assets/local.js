// Adds the time of the reader's zone to each time of a page and to the fields for times, which are in UTC without this script, and
// a box for all rows of a list.
(() => {
  "use strict";
  const main = document.querySelector("main");
  const day = { year: "numeric", month: "2-digit", day: "2-digit" };
  const clock = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const show = () => {
    for (const time of main.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(time.dateTime);
      const shown = time.querySelector(".at");
      if (isNaN(at) || !shown) continue;
      time.title = at.toLocaleString([], { ...day, ...clock, second: "2-digit" });
      if (at.getTimezoneOffset() === 0) continue;
      const other = at.toDateString() !== new Date().toDateString();
      shown.textContent += ", " + at.toLocaleString([], other ? { ...day, ...clock } : clock);
    }
  };
  // A field for a time takes it in the reader's zone, and sends it in UTC.
  const enter = () => {
    for (const field of main.querySelectorAll("input[type=datetime-local]:not([data-local])")) {
      field.dataset.local = "";
      const words = field.previousSibling;
      words.textContent = words.textContent.replace("UTC", "your time");
      field.form.addEventListener("formdata", ({ formData }) => {
        const at = new Date(field.value);
        if (!isNaN(at)) formData.set(field.name, at.toISOString().slice(0, 16));
      });
    }
  };
  // A box that ticks all rows of a list.
  const choose = () => {
    for (const bar of main.querySelectorAll("form.chosen .choose:not([data-all])")) {
      const [box, label] = ["input", "label"].map((name) => document.createElement(name));
      box.type = "checkbox";
      label.append(box, " all of this page");
      bar.dataset.all = "";
      bar.prepend(label);
      box.addEventListener("change", () => {
        for (const row of bar.closest("form").querySelectorAll("[name=id]")) row.checked = box.checked;
      });
    }
  };
  const all = () => { show(); enter(); choose(); };
  all();
  new MutationObserver(all).observe(main, { childList: true });
})();
