/* Live code: a chapter's cells become editors with a kernel, when the reader asks. Nothing is requested before.

   A computer comes first (Binder), then the editors: whatever fails until then leaves the page as it was. thebe and
   marked come from the addresses in the page's data (see live_code.py, which also says why sphinx-thebe is not used). */

"use strict";

(() => {
  const page = JSON.parse(document.getElementById("live-code").textContent);
  const article = document.querySelector(".bd-article");
  const styles = new URL("live-code.css", document.currentScript.src);
  let bar = null;

  /* The bar under the title: what is happening, in words, and what can be done now. */

  function makeBar() {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = styles;
    document.head.append(link);
    bar = document.createElement("div");
    bar.className = "live-bar";
    bar.tabIndex = -1;
    bar.setAttribute("role", "region");
    bar.setAttribute("aria-label", "Live code");
    bar.innerHTML =
      '<p role="status"></p><div><button type="button">Run all</button> <button type="button">Restart</button></div>';
    article.querySelector("h1").insertAdjacentElement("afterend", bar);
    [bar.runAll, bar.restart] = bar.querySelectorAll("button");
  }

  function say(state, text) {
    bar.dataset.state = state; // waiting, ready, running, failed or gone
    bar.querySelector("p").textContent = text;
    bar.runAll.hidden = bar.restart.hidden = !["ready", "running"].includes(state);
    bar.runAll.disabled = state === "running";
  }

  /* What comes from the network. */

  function fetchScript(address) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = resolve;
      script.onerror = () => {
        script.remove();
        reject(new Error(`${new URL(address).host} could not be reached`));
      };
      document.head.append(script);
    });
  }

  async function fetchTools() {
    if (!window.marked) await fetchScript(page.files.marked);
    if (!window.thebeCore) {
      await fetchScript(page.files.script);
      const style = document.createElement("style");
      // In a layer of its own, thebe's style gives way to the book's.
      style.textContent = `@import url("${page.files.style}") layer(thebe);`;
      document.head.append(style);
    }
  }

  async function findKernel(rendermime) {
    const options = { binderOptions: page.binder, kernelOptions: page.kernel };
    const config = thebeCore.api.makeConfiguration(options, thebe.events);
    const told = (event, { subject, message }) => {
      const phase = subject === "server" && /^Binder is: (\w+)/.exec(message);
      if (phase) say("waiting", `Binder is lending a computer (${phase[1]}). The first start may take some minutes.`);
    };
    thebe.on("status", told);
    try {
      const server = thebeCore.api.connectToBinder(config);
      await server.ready;
      return { config, session: await server.startNewSession(rendermime) };
    } catch (error) {
      throw new Error(`no computer from ${new URL(page.binder.binderUrl).host} (${error.message ?? error})`);
    } finally {
      thebe.off("status", told);
    }
  }

  /* Outputs in Markdown: marked sets the text, the page's own MathJax the formulas. */

  function makeRegistry() {
    const rendermime = thebeCore.api.makeRenderMimeRegistry({ mathjaxUrl: "", mathjaxConfig: "" });
    rendermime.markdownParser = { render: async (text) => marked.parse(text) };
    rendermime.latexTypesetter = {
      typeset(host) {
        if (!host.closest('[data-mime-type="text/markdown"]')) return;
        const texts = [], walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("code, pre")) texts.push(walker.currentNode);
        for (const text of texts) {
          const parts = text.data.split(/(\$\$[^$]+\$\$|\$[^$]+\$)/);
          text.replaceWith(...parts.map((part, i) => {
            if (i % 2 === 0) return part;
            const formula = document.createElement("span");
            formula.className = "math notranslate nohighlight set";
            formula.textContent = part.startsWith("$$") ? `\\[${part.slice(2, -2)}\\]` : `\\(${part.slice(1, -1)}\\)`;
            return formula;
          }));
        }
        MathJax.typesetPromise([host]);
      },
    };
    return rendermime;
  }

  /* Cells. The book's output stays until the cell has run; a caption stays for good. */

  function makePlace(box) {
    const old = box.querySelector(".cell_output"), place = document.createElement("div");
    place.className = "live-output";
    if (!old) {
      place.classList.add("cell_output");
      box.append(place);
      return { place, stale: [] };
    }
    const caption = old.querySelector("figcaption");
    const stale = [...old.children].flatMap((child) => (child.contains(caption) ? [...child.children] : [child]));
    if (caption) caption.before(place);
    else old.append(place);
    return { place, stale: stale.filter((child) => child !== caption) };
  }

  function makeCells(rendermime, config, session) {
    const boxes = [...article.querySelectorAll("div.cell")];
    const blocks = boxes.map((box, i) => ({
      id: `live-${i + 1}`,
      source: page.cells[i] ?? box.querySelector(".cell_input pre").textContent.trim(),
    }));
    const notebook = thebeCore.api.setupNotebookFromBlocks(blocks, config, rendermime);
    thebe.notebook = notebook;
    notebook.attachSession(session);
    boxes.forEach((box, i) => {
      const cell = notebook.cells[i], { place, stale } = makePlace(box);
      const alt = box.querySelector("img[alt]")?.alt;
      cell.model.changed.connect(() => {
        stale.splice(0).forEach((part) => part.remove());
      });
      new MutationObserver(() => describe(place, alt)).observe(place, { childList: true, characterData: true, subtree: true });
      if (page.cells[i] !== null) return cell.attachToDOM(place);
      const source = box.querySelector(".cell_input pre");
      box.querySelectorAll("button.copybtn").forEach((button) => button.remove());
      const options = {
        mountRunButton: true,
        codeMirrorConfig: { mode: "python", lineNumbers: false, lineWrapping: true, screenReaderLabel: "Code" },
      };
      thebe.renderAllCells(options, notebook, [{ id: cell.id, placeholders: { source, output: place } }]);
      const execute = cell.execute.bind(cell);
      // The code of computed sentences is not shown: it runs with the shown cell before it.
      const next = page.cells.findIndex((hidden, j) => j > i && hidden === null);
      const followers = notebook.cells.slice(i + 1, next < 0 ? undefined : next);
      cell.execute = async () => {
        let done = await execute();
        for (const follower of followers) if (done && !done.error) done = await follower.execute();
        return done;
      };
      const run = box.querySelector(".thebe-run-button");
      run.textContent = "Run";
      run.title = "Run this cell (Shift+Enter)";
    });
    return notebook;
  }

  /* Words for what a live output shows in pictures, sliders and buttons. */

  function describe(place, alt) {
    for (const image of place.querySelectorAll("img:not([alt]), img[alt='']")) {
      image.alt = alt ? `Drawn anew by the code above. In the book: ${alt}` : "Drawn by the code above.";
    }
    for (const slider of place.querySelectorAll(".widget-inline-hbox")) {
      const handle = slider.querySelector("[role=slider]"), label = slider.querySelector(".widget-label");
      const value = slider.querySelector(".widget-readout")?.textContent;
      if (!handle || !label) continue;
      handle.setAttribute("aria-label", label.textContent);
      if (value && handle.getAttribute("aria-valuetext") !== value) handle.setAttribute("aria-valuetext", value);
    }
    for (const play of place.querySelectorAll(".widget-play")) {
      ["Play or pause", "Stop", "Repeat"].forEach((name, i) => play.children[i]?.setAttribute("aria-label", name));
    }
  }

  /* Running. */

  const READY = "Ready. Later cells need earlier ones, so run all first. Shift+Enter runs a cell, Esc leaves its editor.";

  async function runAll(notebook) {
    const shown = notebook.cells.filter((cell, i) => page.cells[i] === null);
    for (const [i, cell] of shown.entries()) {
      say("running", `Running cell ${i + 1} of ${shown.length} …`);
      const done = await cell.execute();
      if (bar.dataset.state !== "running") return; // restarted, or gone, meanwhile
      if (done === null || done.error) {
        article.querySelectorAll(".thebe-cell")[i].scrollIntoView({ block: "center" });
        return say("ready", `Cell ${i + 1} of ${shown.length} stopped with an error. Those after it have not been run.`);
      }
    }
    say("ready", `All ${shown.length} cells have been run. Change one and run it again, or run all.`);
  }

  async function restart(session) {
    say("waiting", "Restarting the kernel …");
    await session.restart();
    say("ready", `Restarted. ${READY}`);
  }

  async function start() {
    if (bar === null) makeBar();
    bar.focus();
    if (!["failed", undefined].includes(bar.dataset.state)) return;
    try {
      say("waiting", "Fetching the editor …");
      await fetchTools();
      say("waiting", "Asking Binder for a computer …");
      const rendermime = makeRegistry();
      const { config, session } = await findKernel(rendermime);
      const notebook = makeCells(rendermime, config, session);
      thebe.on("status", (event, { subject, status }) => {
        if (subject !== "session") return;
        if (status === "shutdown") {
          say("gone", "The kernel is gone. If it does not come back, reload the page and press Live code again.");
        } else if (bar.dataset.state === "gone") {
          say("ready", `The kernel is back. ${READY}`);
        }
      });
      bar.runAll.onclick = () => runAll(notebook);
      bar.restart.onclick = () => restart(session);
      article.classList.add("live");
      say("ready", READY);
    } catch (error) {
      console.error(error);
      say("failed", `Live code needs a connection: ${error.message}. The page stays as it was. Press Live code again to retry.`);
    }
  }

  window.startLiveCode = start;
})();
