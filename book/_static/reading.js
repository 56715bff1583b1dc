/* Equations are typeset a few at a time, those nearest to what is on the screen first, so that keys, sliders and
   scrolling are answered meanwhile. MathJax takes seconds for all of a chapter's on a phone, in one piece. */
(() => {
  "use strict";
  const SLICE = 100; // milliseconds: smaller ones cost more, since the page is drawn anew after each
  const waiting = new Set();

  // Unlike a timer, a message is not held back in a tab that is not in front.
  const pause = () => new Promise((resume) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resume(); };
    port2.postMessage(null);
  });

  // The style sheet keeps formulas in a line small until they are set: MathJax measures the text around them.
  const ready = (some) => {
    for (const math of some) {
      waiting.delete(math);
      math.classList.add("set");
    }
    if (!waiting.size) document.documentElement.classList.add("set");
  };

  const distance = (math) => {
    const box = math.getBoundingClientRect();
    // What is folded away has no box.
    return box.width ? Math.max(box.top - innerHeight, -box.bottom, 0) : Infinity;
  };

  const nearestFirst = () => {
    const far = new Map([...waiting].map((math) => [math, distance(math)]));
    return [...waiting].sort((one, other) => far.get(one) - far.get(other) || 0);
  };

  /* What is read keeps its place when equations above it grow. Browsers see to it, except those that do not. */
  const inPlace = async (change) => {
    if (CSS.supports("overflow-anchor", "auto")) return change();
    const held = document.elementFromPoint(innerWidth / 2, innerHeight / 4);
    const before = held?.getBoundingClientRect().top;
    await change();
    if (scrollY && held?.isConnected) scrollBy({ top: held.getBoundingClientRect().top - before, behavior: "instant" });
  };

  const typesetAll = async () => {
    let count = 8, queue = nearestFirst(), sorted = scrollY;
    while (waiting.size) {
      if (Math.abs(scrollY - sorted) > innerHeight / 2) {
        queue = nearestFirst();
        sorted = scrollY;
      }
      const slice = queue.splice(0, count).filter((math) => waiting.has(math));
      const start = performance.now();
      await inPlace(() => {
        ready(slice);
        return MathJax.typesetPromise(slice);
      });
      const ratio = SLICE / (performance.now() - start);
      count = Math.ceil(Math.min(Math.max(count * Math.min(ratio, 2), 1), 64));
      await pause();
    }
  };

  /* Paper does not wait. */
  addEventListener("beforeprint", () => {
    const rest = [...waiting];
    if (!rest.length || !window.MathJax?.typeset) return;
    ready(rest);
    MathJax.typeset(rest);
  });

  /* Most pictures of explorers lie beside the page: fetched when all else is there, or when a hand comes near. */
  const fetchFrames = (explorer) => {
    const {sources} = JSON.parse(explorer.querySelector("script[type='application/json']").textContent);
    for (const source of sources) if (source) new Image().src = source;
  };
  for (const explorer of document.querySelectorAll(".tokensel-explorer")) {
    for (const sign of ["pointerenter", "focusin"]) {
      explorer.addEventListener(sign, () => fetchFrames(explorer), { once: true });
    }
  }

  // This script runs when the page has been read, before MathJax; pages without equations have none.
  document.querySelectorAll(".math").forEach((math) => waiting.add(math));
  if (window.MathJax) MathJax.startup = { ...MathJax.startup, pageReady: typesetAll };
  document.querySelector("script[src*='/mathjax/']")?.addEventListener("error", () => ready([...waiting]));
  addEventListener("load", async () => {
    await window.MathJax?.startup.promise;
    document.querySelectorAll(".tokensel-explorer").forEach(fetchFrames);
  });
})();
