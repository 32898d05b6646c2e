"use strict";
// Unpacks Vega and draws a plot in the place of its static picture when it comes near the screen.
(() => {
  const root = document.documentElement, figures = [...document.querySelectorAll("figure.plot")];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("plots").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const found = JSON.parse(await new Response(stream).text());
    document.head.append(Object.assign(document.createElement("script"), {textContent: found.vega}));
    return found;
  };
  let unpacked;
  const draw = async (figure) => {
    const found = await (unpacked ??= unpack()), live = document.createElement("div");
    live.className = "live coming";            // out of the flow until drawn, so that the page does not jump
    figure.append(live);
    const spec = {...found.plots[figures.indexOf(figure)], config: found[theme()]};
    await vegaEmbed(live, spec, {ast: true, actions: false, renderer: "svg", logLevel: 1, tooltip: {theme: theme()}});
    figure.querySelectorAll(".live").forEach((old) => { if (old !== live) old.remove(); });
    live.classList.remove("coming");
    figure.dataset.live = "";
  };
  if (typeof DecompressionStream === "undefined") return;
  let waits = 0;
  const seen = new IntersectionObserver((entries) => entries.forEach(async ({target, isIntersecting}) => {
    if (!isIntersecting) return;
    seen.unobserve(target);
    root.dataset.waits = ++waits;
    try { await draw(target); } finally { if (--waits === 0) delete root.dataset.waits; }
  }), {rootMargin: "400px"});
  figures.forEach((figure) => seen.observe(figure));
  const again = () => figures.filter((figure) => "live" in figure.dataset).forEach(draw);
  root.addEventListener("theme", again);
  system.addEventListener("change", again);
})();
