"use strict";
// Unpacks Vega and draws a plot in the place of its static picture when it comes near the screen.
(async () => {
  const root = document.documentElement, figures = [...document.querySelectorAll("figure.plot")];
  const json = (element) => JSON.parse(element.textContent);
  const configs = json(document.getElementById("vega-configs"));
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("vega").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(Object.assign(document.createElement("script"), {textContent: await new Response(stream).text()}));
  };
  const draw = async (figure) => {
    const spec = {...json(figure.querySelector("script")), config: configs[dark() ? "dark" : "light"]};
    const live = document.createElement("div");
    live.className = "live";
    figure.append(live);
    const drawn = await vegaEmbed(live, spec, {ast: true, actions: false, renderer: "svg", tooltip: {theme: dark() ? "dark" : "light"}});
    figure.view?.finalize();
    for (const old of figure.querySelectorAll(".live")) if (old !== live) old.remove();
    figure.view = drawn;
    figure.dataset.live = "";
  };
  if (typeof DecompressionStream === "undefined") return;
  let unpacked;
  const seen = new IntersectionObserver((entries) => entries.forEach(async ({target, isIntersecting}) => {
    if (!isIntersecting) return;
    seen.unobserve(target);
    root.dataset.waits = "";
    try { await (unpacked ??= unpack()); await draw(target); } finally { delete root.dataset.waits; }
  }), {rootMargin: "400px"});
  figures.forEach((figure) => seen.observe(figure));
  const again = () => figures.filter((figure) => "live" in figure.dataset).forEach(draw);
  root.addEventListener("theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
