// Puts the articles of all pages into this one document, in the order of the site's table of contents, and has
// their formulas typeset. Called by printed_book.py in a browser whose every request is answered from the site.

async function assembleBook(index, rules) {
  const make = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };
  const fetchPage = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`the site has no page ${url}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };
  const text = (node) => node.textContent.replace(/\s+/g, " ").trim();

  // The table of contents stands in the navigation of every page: captions of parts, and their pages.
  const start = new URL(index, location.href).href;
  const first = await fetchPage(start);
  const parts = [{caption: null, pages: []}];
  for (const entry of first.querySelectorAll("nav.bd-docs-nav :is(p.caption, li.toctree-l1 > a)")) {
    if (entry.matches("p")) parts.push({caption: text(entry), pages: []});
    else parts.at(-1).pages.push(new URL(entry.getAttribute("href"), start).href.split("#")[0]);
  }
  const root = new URL(".", start).href;
  const names = new Map(parts.flatMap((part) => part.pages).map((url) => [url, url.slice(root.length, -".html".length)]));
  const articles = new Map();
  let mathjax = null;
  await Promise.all([...names.keys()].map(async (url) => {
    const page = url === start ? first : await fetchPage(url);
    articles.set(url, page.querySelector("article.bd-article"));
    const script = page.querySelector('script[src*="/mathjax/"]'); // only pages with formulas have one
    if (script) mathjax = new URL(script.getAttribute("src"), url).href;
  }));

  const chapters = [];
  for (const {caption, pages} of parts) {
    for (const url of pages) {
      const article = articles.get(url);
      article.id = names.get(url);
      settle(article, url);
      prefixIds(article);
      leadLinks(article, url);
      if (caption) lowerHeadings(article);
      const heading = article.querySelector(caption ? "h2" : "h1");
      heading.classList.add("printed-chapter");
      if (url === start) heading.textContent = "About this book";
      if (caption && url === pages[0]) {
        article.prepend(make("h1", {className: "printed-part", id: `part/${caption}`}, caption));
      }
      chapters.push(document.adoptNode(article));
    }
  }
  const main = document.querySelector("main");
  main.querySelector(".subtitle").textContent = chapters[0].querySelector("h1 + p > em:only-child")?.textContent ?? "";
  await dress();
  await typeset(main, chapters);
  runningTitles(chapters);
  main.classList.add("printed-only"); // laid out once, by printing
  main.append(contents(chapters), ...chapters);
  requireTargets(main);
  await Promise.all([...document.images].map((image) => image.decode()));
  return [...main.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(entry);

  // A heading for the outline, where formulas are letters.
  function entry(heading) {
    const copy = heading.cloneNode(true);
    const sources = [...heading.querySelectorAll(".math")].map((node) => node.dataset.source);
    copy.querySelectorAll(".math").forEach((node, k) => {
      const math = new DOMParser().parseFromString(MathJax.tex2mml(sources[k]), "text/html");
      node.textContent = math.body.textContent.replace(/\s/g, "");
    });
    return text(copy);
  }

  // The site's styles and its MathJax.
  async function dress() {
    const loaded = (node) => new Promise((resolve, reject) => {
      node.onload = resolve;
      node.onerror = () => reject(new Error(`the site has no ${node.href ?? node.src}`));
      document.head.append(node);
    });
    for (const style of first.querySelectorAll('link[rel="stylesheet"]')) {
      await loaded(make("link", {rel: "stylesheet", href: new URL(style.getAttribute("href"), start).href}));
    }
    document.head.append(make("style", {}, rules));
    window.MathJax = {
      chtml: {scale: 0.95},
      options: {processHtmlClass: "math", enableMenu: false, enableAssistiveMml: false},
      startup: {typeset: false},
    };
    if (mathjax) await loaded(make("script", {src: mathjax}));
  }

  // What moves, folds or copies on the site stands still on paper.
  function settle(article, url) {
    const gone = "script, style, noscript, .headerlink, .toctree-wrapper, dt:has(+ dd .printed-book), dd:has(.printed-book), " +
      "button, svg:not([role=img]), input";
    for (const node of article.querySelectorAll(gone)) {
      if (!node.matches(".tokensel-highlight > style")) node.remove(); // the colours of a text are told there
    }
    // Code that only draws is folded away on the site and left out here. All else is unfolded.
    for (const folded of article.querySelectorAll("details.hide")) folded.remove();
    for (const folded of article.querySelectorAll("details")) {
      const summary = folded.querySelector("summary");
      summary?.replaceWith(make("p", {className: "printed-summary"}, ...summary.childNodes)); // with its formulas
      folded.replaceWith(make("div", {className: folded.className}, ...folded.childNodes));
    }
    for (const explorer of article.querySelectorAll(".tokensel-explorer")) {
      const rows = [...explorer.querySelectorAll(".tokensel-row")];
      const state = rows.map((row) => `${text(row.querySelector("label"))}: ${text(row.querySelector("output"))}`);
      for (const row of rows) row.remove();
      const there = make("a", {href: url, className: "printed-outside"}, "the page on the web");
      explorer.append(make("p", {className: "printed-state"}, `Shown is ${state.join(", ")}. On `, there,
        rows.length > 1 ? " sliders move this figure." : " a slider moves this figure."));
    }
    // Letters of one colour are one piece of text: a third of the file and of the time.
    for (const span of article.querySelectorAll(".highlight span:is(.n, .p, .w, .o)")) span.replaceWith(...span.childNodes);
    article.normalize();
    for (const image of article.querySelectorAll("img")) {
      image.setAttribute("src", new URL(image.getAttribute("src"), url));
      image.removeAttribute("loading");
    }
  }

  // Ids are unique on a page; in the book each carries its page's name.
  function prefixIds(article) {
    for (const node of article.querySelectorAll("[id]:not(svg *)")) node.id = `${article.id}/${node.id}`;
  }

  function leadLinks(article, url) {
    for (const link of article.querySelectorAll("a[href]")) {
      const target = new URL(link.getAttribute("href"), url);
      const page = names.get(target.href.split("#")[0]);
      const within = page && !link.matches(".printed-outside");
      link.setAttribute("href", within ? `#${page}${target.hash.replace("#", "/")}` : target.href);
    }
  }

  // Parts are the first level of headings, their chapters the second.
  function lowerHeadings(article) {
    for (const heading of article.querySelectorAll("h1, h2, h3, h4, h5")) {
      const lowered = make(`h${Number(heading.tagName[1]) + 1}`, {className: heading.className}, ...heading.childNodes);
      heading.replaceWith(lowered);
    }
  }

  // One chapter at a time: MathJax measures as it goes, and a whole book is slow to lay out.
  async function typeset(main, chapters) {
    if (!mathjax) return;
    await MathJax.startup.promise;
    for (const chapter of chapters) {
      main.append(chapter);
      for (const node of chapter.querySelectorAll(":is(h1, h2, h3, h4, h5) .math")) {
        node.dataset.source = node.textContent.trim().slice(2, -2);
      }
      await MathJax.typesetPromise([chapter]);
      chapter.getBoundingClientRect(); // asks for the fonts
      await document.fonts.ready;
      shrinkWideFormulas(chapter);
      chapter.remove();
    }
  }

  function shrinkWideFormulas(chapter) {
    const sizes = [...chapter.querySelectorAll('mjx-container[display="true"]')].map((formula) => {
      const line = formula.getBoundingClientRect().width;
      return {formula, share: line / formula.firstElementChild.getBoundingClientRect().width};
    });
    for (const {formula, share} of sizes) {
      if (share < 1) formula.style.fontSize = `${Math.floor(95 * share)}%`;
    }
  }

  function contents(chapters) {
    const line = (heading, id, level) => make("p", {className: `printed-line ${level}`},
      make("a", {href: `#${id}`}, ...[...heading.childNodes].map((node) => node.cloneNode(true))),
      make("span", {className: "printed-number"}, "000"));
    const nav = make("nav", {id: "contents"}, make("h1", {}, "Contents"));
    for (const chapter of chapters) {
      const part = chapter.querySelector(".printed-part");
      if (part) nav.append(line(part, part.id, "part"));
      const heading = chapter.querySelector(".printed-chapter");
      nav.append(line(heading, chapter.id, "chapter"));
      for (const section of chapter.querySelectorAll(`section > h${Number(heading.tagName[1]) + 1}`)) {
        nav.append(line(section, section.parentElement.id, "section"));
      }
    }
    return nav;
  }

  // Each chapter has sheets of its own, with its title at the top.
  function runningTitles(chapters) {
    const rules = chapters.map((chapter, k) => {
      chapter.style.page = `chapter-${k}`;
      const title = text(chapter.querySelector(".printed-chapter"));
      return `@page chapter-${k} { @top-left { content: ${JSON.stringify(title)}; } }`;
    });
    document.head.append(make("style", {}, rules.join("\n")));
  }

  function requireTargets(main) {
    const missing = [...main.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute("href"))
      .filter((href) => !document.getElementById(decodeURIComponent(href.slice(1))));
    if (missing.length) throw new Error(`links that lead nowhere: ${missing.join(", ")}`);
  }
}

// The contents once more, with page numbers and nothing after them.
function numberContents(pages) {
  for (const line of document.querySelectorAll(".printed-line")) {
    const id = decodeURIComponent(line.querySelector("a").getAttribute("href").slice(1));
    line.querySelector(".printed-number").textContent = pages[id];
  }
  for (const article of document.querySelectorAll("main > article")) article.remove();
}
