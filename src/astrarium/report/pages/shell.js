"use strict";
(() => {
  const root = document.documentElement, all = (query, from = document) => [...from.querySelectorAll(query)];
  const make = (tag, parent, text = "") => Object.assign(parent.appendChild(document.createElement(tag)),
                                                         {textContent: text});

  // Theme: the system's, until the reader chooses; remembered where the browser stores anything for this file.
  const store = (call) => { try { return call(localStorage); } catch { return null; } };
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = make("button", document.querySelector(".top"));
  theme.id = "theme";
  const show = () => { theme.textContent = dark() ? "Light theme" : "Dark theme"; };
  const known = store((kept) => kept.getItem("astrarium-theme"));
  if (known === "light" || known === "dark") root.dataset.theme = known;
  theme.onclick = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    store((kept) => kept.setItem("astrarium-theme", root.dataset.theme));
    show();
    root.dispatchEvent(new Event("theme"));
  };
  show();

  // Copy buttons.
  const said = document.body.appendChild(Object.assign(document.createElement("p"), {className: "vh"}));
  said.setAttribute("role", "status");
  for (const pre of all("pre[data-copy]")) {
    const button = make("button", pre.parentElement, "Copy");
    button.onclick = async () => {
      try { await navigator.clipboard.writeText(pre.textContent); } catch {
        getSelection().selectAllChildren(pre);
        document.execCommand("copy");
      }
      said.textContent = button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    };
  }

  // Tables: headings sort, and long tables have a filter.
  const powers = {p: -12, n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18, B: 9};
  const value = (cell) => {
    if (!cell) return NaN;
    if (cell.dataset.v) return Number(cell.dataset.v);
    const found = /^[$]?([-+\u2212]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*([a-zA-Z%$]*)/.exec(cell.textContent.trim());
    if (!found) return NaN;
    const [, digits, unit] = found, power = unit.length > 1 || /^[kMB]$/.test(unit) ? powers[unit[0]] ?? 0 : 0;
    return Number(digits.replace(/,/g, "").replace("\u2212", "-")) * 10 ** power;
  };
  const sort = (table, column, down) => {
    const body = table.tBodies[0], rows = [...body.rows], sign = down ? -1 : 1;
    const keyed = rows.map((row) => [row, value(row.cells[column]), row.cells[column]?.textContent ?? ""]);
    const numbers = keyed.filter(([, number]) => !Number.isNaN(number)).length * 2 > keyed.length;
    keyed.sort(([, a, left], [, b, right]) => numbers ?
      Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0 : sign * left.localeCompare(right));
    body.append(...keyed.map(([row]) => row));
  };
  for (const table of all("table[data-sort]")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.onclick = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const each of heads) if (each.hasAttribute("aria-sort")) each.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      };
    });
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= 8) continue;
    const line = document.createElement("div"), label = make("label", line, "Filter rows ");
    line.className = "filter";
    const input = make("input", label), count = make("span", line);
    input.type = "search";
    count.setAttribute("role", "status");
    table.parentElement.before(line);
    input.oninput = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const left = rows.filter((row) => {
        const text = row.textContent.toLowerCase();
        return !(row.hidden = !words.every((word) => text.includes(word)));
      });
      count.textContent = words.length ? `${left.length} of ${rows.length}` : "";
    };
  }
})();
