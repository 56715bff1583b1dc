"""The built pages as files: links lead somewhere, ids are unique, figures are described."""

from collections import Counter
from urllib.parse import unquote, urlsplit

import yaml
from browsing import ROOT, SITE
from bs4 import BeautifulSoup

import tokensel as ts


def content(soup):
    return soup.select_one("article.bd-article")


def test_internal_links_and_anchors_resolve(soups):
    trees, broken = {}, []
    for address, soup in soups.items():
        page = SITE / f"{address}.html"
        for link in soup.select("a[href]"):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file():
                broken.append(f"{address}: {link['href']}")
                continue
            if parts.fragment and target.suffix == ".html":
                if target not in trees:
                    trees[target] = BeautifulSoup(target.read_text(encoding="utf-8"), "html.parser")
                if not trees[target].find(id=unquote(parts.fragment)):
                    broken.append(f"{address}: {link['href']}")
    assert broken == []


def test_ids_are_unique(soups):
    for address, soup in soups.items():
        counts = Counter(element["id"] for element in content(soup).select("[id]"))
        assert [identifier for identifier, count in counts.items() if count > 1] == [], address


def test_pages_name_no_outside_resource(soups):
    """What a browser loads by itself (scripts, styles, pictures, frames) lies beside the page."""
    for address, soup in soups.items():
        for element in soup.select("script[src], img[src], iframe[src], source[src], link[rel=stylesheet]"):
            assert not urlsplit(element.get("src") or element["href"]).netloc, (address, element)


def test_figures_have_captions_and_alt_texts(soups):
    for address, soup in soups.items():
        for picture in content(soup).select("img"):
            if picture.find_parent(class_="tokensel-explorer"):
                assert picture["alt"].strip(), address
                continue
            figure = picture.find_parent("figure")
            assert figure is not None, f"{address}: a picture without a caption: {str(picture)[:200]}"
            caption = figure.select_one("figcaption .caption-text").get_text(strip=True)
            assert len(caption.split()) >= 4, f"{address}: {caption!r} says too little"
            alt = picture["alt"].strip()
            # Sphinx falls back to the file's name where no alt text is given.
            assert len(alt.split()) >= 5, f"{address}: {alt!r} says too little"


def test_no_line_begins_with_the_mark_after_a_formula(soups):
    """A browser may break a line behind a formula, unless the two are held together."""
    for address, soup in soups.items():
        for formula in content(soup).select("span.math:not(.held > span.math)"):
            mark = formula.next_sibling if isinstance(formula.next_sibling, str) else ""
            assert not mark.startswith(tuple(".,;:?!)]”’")), (address, formula.get_text(), mark[:20])


def test_pages_stay_small(soups):
    """Four megabytes of HTML a page, frames of explorers included: what a phone still opens at once."""
    for address in soups:
        assert (SITE / f"{address}.html").stat().st_size <= 4_000_000, address


def test_every_public_name_is_on_the_package_page(soups):
    ids = {element["id"] for element in soups["book/reference/api"].select("[id]")}
    for name in ts.__all__:
        public = getattr(ts, name)
        if type(public).__name__ == "module":
            assert f"module-tokensel.{name}" in ids
            inner = getattr(public, "__all__", None) or [
                own
                for own, value in vars(public).items()
                if callable(value) and not own.startswith("_") and value.__module__ == public.__name__
            ]
            names = [f"tokensel.{name}.{own}" for own in inner]
            assert names
        else:
            names = [f"tokensel.{name}"]
        assert [full for full in names if full not in ids] == []


def test_chapters_open_in_colab_and_binder(soups):
    """The launch buttons name this repository and a notebook that stands in it."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    owner, name = config["repository"]["url"].split("/")[-2:]
    chapters = [address for address in soups if (ROOT / f"{address}.ipynb").is_file()]
    assert chapters
    for address in chapters:
        links = {link["href"] for link in soups[address].select("a[href]")}
        assert f"https://colab.research.google.com/github/{owner}/{name}/blob/main/{address}.ipynb" in links
        assert f"https://mybinder.org/v2/gh/{owner}/{name}/main?urlpath=lab/tree/{address}.ipynb" in links


def test_each_chapter_offers_its_notebook_as_it_is(soups):
    chapters = [address for address in soups if (ROOT / f"{address}.ipynb").is_file()]
    assert chapters
    for address in chapters:
        page = SITE / f"{address}.html"
        links = soups[address].select('a.btn-download-source-button[href$=".ipynb"]')
        assert len(links) == 1, address
        offered = (page.parent / unquote(links[0]["href"])).resolve()
        assert offered.read_bytes() == (ROOT / f"{address}.ipynb").read_bytes(), address


def test_front_page_leads_to_the_book(site):
    soup = BeautifulSoup((site / "index.html").read_text(encoding="utf-8"), "html.parser")
    target = soup.select_one("meta[http-equiv]")["content"].split("url=")[1]
    assert (site / target).is_file()
