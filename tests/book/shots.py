"""Pictures of every built page (desktop, phone, dark, wide) in ``build/shots``. Run by ``make shots``.

``make shots PAGES="one-step imdb"`` takes only the pages whose address holds one of the words.
"""

import sys

from browsing import ROOT, VIEWS, launch_options, pages, visit
from playwright.sync_api import sync_playwright


def main(words):
    chosen = [address for address in pages() if not words or any(word in address for word in words)]
    if not chosen:
        sys.exit(f"no page's address holds {' or '.join(words)}: there are {' '.join(pages())}")
    folder = ROOT / "build" / "shots"
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        for view, options in VIEWS.items():
            page = browser.new_context(**options).new_page()
            for address in chosen:
                visit(page, address)
                path = folder / f"{address.replace('/', '-')}-{view}.png"
                page.screenshot(path=path, full_page=True)
                print(path)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
