"use strict";
// The workbench's one script: knobs ask for answers, forms start jobs, jobs tell how far they are, files are dropped.
(() => {
  const $ = (id) => document.getElementById(id);
  const client = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
  const token = document.body.dataset.token;

  const change = async (path, body, raw) => {
    const headers = { "X-Astrarium-Token": token };
    if (!raw) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { method: "POST", headers, body: raw ? body : JSON.stringify(body ?? {}) });
    const found = await answer.json().catch(() => ({ error: "the server gave no answer" }));
    if (!answer.ok) throw new Error(found.error || answer.statusText);
    return found;
  };

  const show = (place, html) => {       // tables of what is shown can be sorted
    place.innerHTML = html;
    document.documentElement.dispatchEvent(new CustomEvent("shown", { detail: place }));
  };

  // ---------------------------------------------------------------- a question whose newest version wins
  const asking = (answered, fail) => {
    let running = null, timer = 0, looks = 0;
    const stop = $("stop"), said = $("said");
    const quiet = () => { clearInterval(looks); stop.hidden = true; said.textContent = ""; };
    stop.addEventListener("click", () => { change(`/api/stop?client=${client}`).catch(() => {}); said.textContent = "stopped"; stop.hidden = true; clearInterval(looks); });
    const ask = async (path) => {
      if (running) running.abort();
      const mine = running = new AbortController();
      clearInterval(looks);
      const begun = performance.now();
      looks = setInterval(async () => {
        if (performance.now() - begun < 700) return;
        stop.hidden = document.body.hasAttribute("data-read-only");
        const found = await fetch(`/api/progress?client=${client}`).then((a) => a.json()).catch(() => ({}));
        if (mine === running && found.progress) said.textContent = `computes: ${found.progress}`;
      }, 500);
      try {
        const answer = await fetch(`${path}&client=${client}`, { signal: mine.signal });
        const found = await answer.json();
        if (mine !== running) return;
        quiet();
        if (found.replaced) return;
        if (found.error) fail(found); else answered(found);
      } catch (error) {
        if (error.name === "AbortError" || mine !== running) return;
        quiet();
        fail({ error: "the server does not answer: is it still running?" });
      }
    };
    return (path, wait) => { clearTimeout(timer); timer = setTimeout(() => ask(path), wait); };
  };

  const command = (text) => {
    const box = document.querySelector(".command");
    $("command").textContent = text || "";
    box.hidden = !text;
  };
  const problem = (text) => { const p = document.createElement("p"); p.className = "problem"; p.textContent = text; return p; };

  // ---------------------------------------------------------------- knobs
  const bench = $("bench");
  if (bench) {
    const design = bench.dataset.design, answer = $("answer"), all = $("all");
    const fields = [...document.querySelectorAll("[data-path]")];
    const values = (range) => range.dataset.values.split("|");
    const mark = (field) => field.closest(".knob").classList.toggle("turned", field.value !== field.dataset.base);
    const slider = (field) => field.closest(".knob").querySelector("input[type=range]");
    const follow = (field) => {
      const range = slider(field);
      if (!range) return;
      const every = values(range), unit = (text) => text.replace(/^[\d.e+-]+/, "").trim();
      const far = (text) => unit(text) === unit(field.value) ? Math.abs(parseFloat(text) - parseFloat(field.value)) : Infinity;
      const near = every.reduce((best, text, at) => far(text) < far(every[best]) ? at : best, 0);     // of a typed value
      if (Number.isFinite(far(every[near]))) range.value = near;
      range.setAttribute("aria-valuetext", field.value);
    };
    const asked = new URLSearchParams(location.search).getAll("set").map((each) => each.slice(0, each.indexOf("=")));
    const turned = new Set(asked);        // the others only follow
    const sets = () => fields.filter((f) => turned.has(f.dataset.path) && f.value !== f.dataset.base).map((f) => [f.dataset.path, f.value]);
    const query = () => sets().map(([path, value]) => `&set=${encodeURIComponent(`${path}=${value}`)}`).join("");
    const ask = asking((found) => {
      show(answer, found.html);
      $("refused").textContent = "";
      answer.classList.remove("old");
      command(found.command);
      for (const field of fields) {
        const path = field.dataset.path, also = found.also[path];
        field.closest(".knob").classList.toggle("followed", also !== undefined);
        if (!turned.has(path)) { field.value = also ?? field.dataset.base; follow(field); mark(field); }
      }
      if (all.open) more();
    }, (found) => {
      $("refused").textContent = found.error;
      answer.classList.add("old");
      answer.querySelector(".said")?.remove();
    });
    const turn = (wait) => {
      fields.forEach(mark);
      $("reset").hidden = !sets().length;
      history.replaceState(null, "", location.pathname + (query() ? `?${query().slice(1)}` : ""));
      $("compare").href = `/compare?a=${encodeURIComponent(design)}&b=${encodeURIComponent(design)}${query().replaceAll("&set=", "&with=")}`;
      ask(`/api/answer?design=${encodeURIComponent(design)}${query()}`, wait);
    };
    const more = async () => {
      const now = query(), place = $("details");
      if (place.dataset.of === now && place.innerHTML) return;
      place.dataset.of = now;
      place.textContent = "computes ...";
      const found = await fetch(`/api/details?design=${encodeURIComponent(design)}${now}&client=${client}d`).then((a) => a.json()).catch(() => ({ error: "no answer" }));
      if (found.replaced || place.dataset.of !== now) return;
      if (found.html) show(place, found.html); else place.replaceChildren(problem(found.error));
    };
    $("knobs").addEventListener("input", (event) => {
      const target = event.target;
      if (target.type === "range") {
        const field = target.closest(".knob").querySelector("[data-path]");
        field.value = values(target)[target.value];
        target.setAttribute("aria-valuetext", field.value);
        turned.add(field.dataset.path);
        turn(60);
      } else if (target.dataset.path) {
        turned.add(target.dataset.path);
        follow(target);
        turn(target.tagName === "SELECT" ? 0 : 350);
      }
    });
    $("knobs").addEventListener("submit", (event) => event.preventDefault());
    $("find").addEventListener("input", () => {
      const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const knob of document.querySelectorAll(".knob")) knob.hidden = !words.every((word) => knob.dataset.find.includes(word));
      for (const group of document.querySelectorAll("details.knobs")) {
        const any = group.querySelector(".knob:not([hidden])");
        group.hidden = words.length > 0 && !any;
        if (words.length) group.open = Boolean(any);
      }
    });
    $("reset").addEventListener("click", () => {
      turned.clear();
      for (const field of fields) { field.value = field.dataset.base; follow(field); }
      turn(0);
    });
    all.addEventListener("toggle", () => { if (all.open) more(); });
    $("save").addEventListener("click", () => { $("saving").hidden = false; $("saving").elements.name.focus(); });
    $("saving").addEventListener("submit", async (event) => {
      event.preventDefault();
      const said = $("saving").querySelector(".said"), name = $("saving").elements.name.value;
      try { location.href = (await change("/api/designs", { design, name, sets: sets().map(([p, v]) => `${p}=${v}`) })).link; }
      catch (error) { said.textContent = error.message; said.classList.add("problem"); }
    });
    // ------------------------------------------------------------ a search around the design
    const spoken = (field) => field.closest(".knob").querySelector("label").textContent;
    const choice = (path, text) => {
      const row = document.createElement("div"), select = document.createElement("select"), input = document.createElement("input"), gone = document.createElement("button");
      row.className = "choice";
      select.setAttribute("aria-label", "knob");
      input.setAttribute("aria-label", "its values, separated by commas");
      for (const field of new Set(fields)) select.add(new Option(`${spoken(field)} · ${field.dataset.path}`, field.dataset.path, false, field.dataset.path === path));
      const usual = () => {
        const field = fields.find((f) => f.dataset.path === select.value), range = slider(field);
        const host = Number(fields.find((f) => f.dataset.path === "network.dims[0].npus")?.value) || Infinity;
        const inside = (value) => select.value !== "workload.tp" || value <= Math.max(host, field.value);     // tp crosses no host
        const every = field.tagName === "SELECT" ? [...field.options].map((o) => o.value) : range ? values(range).filter(inside) : [field.value];
        const known = every.indexOf(field.value), at = known >= 0 ? known : range ? Number(range.value) : 0;
        const near = every.length > 8 ? every.slice(Math.max(0, at - 3), at + 4) : every;
        return [...new Set(known >= 0 ? near : [field.value, field.dataset.base, ...near])].join(", ");
      };
      input.value = text || usual();
      select.addEventListener("change", () => { input.value = usual(); });
      gone.type = "button"; gone.textContent = "Remove";
      gone.addEventListener("click", () => row.remove());
      row.append(select, input, gone);
      $("choices").append(row);
    };
    $("search").addEventListener("click", () => {
      $("searching").hidden = false;
      if (!$("choices").children.length) {
        const known = fields.map((f) => f.dataset.path);
        const first = sets().map(([path]) => path);
        for (const path of first.length ? first : ["workload.tp", "workload.pp", "workload.micro_batch"].filter((p) => known.includes(p))) choice(path);
      }
      $("searching").scrollIntoView({ block: "nearest" });
    });
    $("add-choice").addEventListener("click", () => choice());
    fields.forEach(follow);
    turn(0);
  }

  // ---------------------------------------------------------------- two designs
  const comparing = $("comparing");
  if (comparing && comparing.hasAttribute("data-ready")) {
    const ask = asking((found) => { show($("compared"), found.html); command(found.command); },
      (found) => $("compared").replaceChildren(problem(found.error)));
    ask(`/api/compare${location.search}`, 0);
  }

  // ---------------------------------------------------------------- jobs
  const start = async (form, body) => {
    const said = form.querySelector(".said");
    said.textContent = "starts ...";
    try { location.href = (await change("/api/jobs", body)).link; }
    catch (error) { said.textContent = error.message; said.classList.add("problem"); }
  };
  const filled = (form) => {            // the request of an operation: `a:b` is the field b of a, several[] a list
    const found = {};
    for (const [name, value] of new FormData(form)) {
      if (value === "") continue;
      const [outer, inner] = name.split(":"), number = form.elements[name]?.type === "number";
      if (inner) found[outer] = { ...found[outer], [inner]: Number.isFinite(Number(value)) ? Number(value) : value };
      else if (name.endsWith("[]")) found[name.slice(0, -2)] = [value];
      else found[name] = number ? Number(value) : value;
    }
    return found;
  };
  for (const form of document.querySelectorAll("form[data-job]")) {
    const when = () => {
      const chosen = new FormData(form).get("purpose");
      for (const part of form.querySelectorAll("[data-when]")) {
        part.hidden = part.dataset.when !== chosen;
        for (const field of part.querySelectorAll("input, select")) field.disabled = part.hidden;
      }
    };
    form.addEventListener("change", when);
    when();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      start(form, { verb: form.dataset.job, request: filled(form) });
    });
  }
  const searching = $("searching");
  if (searching) searching.addEventListener("submit", (event) => {
    event.preventDefault();
    const choices = {};
    for (const row of searching.querySelectorAll(".choice")) {
      choices[row.querySelector("select").value] = row.querySelector("input").value.split(",").map((v) => v.trim()).filter(Boolean);
    }
    const { require, ...request } = filled(searching);
    start(searching, { verb: "search", request: { ...request, space: { base: searching.dataset.design, choices, ...(require ? { require } : {}) } } });
  });
  const job = $("job");
  if (job) {
    const id = job.dataset.jobId;
    for (const button of job.querySelectorAll("[data-action]")) button.addEventListener("click", async () => {
      try { await change(`/api/jobs/${id}/${button.dataset.action}`); if (button.dataset.of === "stopped failed") location.reload(); }
      catch (error) { $("text").textContent = error.message; }
    });
    if (["running", "paused"].includes(job.dataset.state)) {
      const elapsed = $("elapsed");
      let begun = elapsed.dataset.seconds ? performance.now() - 1000 * elapsed.dataset.seconds : NaN;
      const tick = () => {
        const seconds = Math.floor((performance.now() - begun) / 1000);
        if (seconds >= 0) elapsed.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} min since the start`;
      };
      setInterval(tick, 1000);
      tick();
      const events = new EventSource(`/api/jobs/${id}/events`);
      events.onmessage = (event) => {
        const { state, progress } = JSON.parse(event.data);
        $("state").textContent = state; $("state").className = `state ${state}`;
        $("text").textContent = progress.text || "";
        if (progress.begun && Number.isNaN(begun)) begun = performance.now();
        const bar = $("bar").querySelector("progress");
        if (typeof progress.share === "number") bar.value = progress.share;
        if (progress.html) $("picture").innerHTML = progress.html;
        for (const button of job.querySelectorAll("[data-action]")) button.hidden = !button.dataset.of.split(" ").includes(state);
      };
      events.addEventListener("end", () => { events.close(); location.reload(); });
    }
  }

  // ---------------------------------------------------------------- dropped files
  const drop = $("drop");
  if (drop) {
    const said = drop.querySelector(".said");
    const send = async (file) => {
      if (!file) return;
      said.textContent = `sends ${file.name} ...`;
      try { location.href = (await change(`/api/files?name=${encodeURIComponent(file.name.replace(/[^A-Za-z0-9_.+@ -]/g, "_"))}`, file, true)).link; }
      catch (error) { said.textContent = error.message; said.classList.add("problem"); }
    };
    $("dropped").addEventListener("change", (event) => send(event.target.files[0]));
    for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") send(event.dataTransfer.files[0]);
    });
  }
})();
