"""Sphinx extension: what the theme and its companions leave to repair in a page."""


def set_public_address(app, config):
    """The site's public address (sitemap, link previews) follows from the repository's, so it stands in one place."""
    owner, name = config.html_theme_options["repository_url"].rstrip("/").split("/")[-2:]
    config.html_baseurl = config.ogp_site_url = f"https://{owner}.github.io/{name}/"


def drop_repeated_scripts(app, pagename, templatename, context, doctree):
    """sphinx-thebe inserts its inline script twice; the second ``const`` of the same name is an error in the page."""
    seen, kept = set(), []
    for script in context["script_files"]:
        body = getattr(script, "attributes", {}).get("body")
        if body is None or body not in seen:
            kept.append(script)
            seen.add(body)
    context["script_files"] = kept


def setup(app):
    app.connect("config-inited", set_public_address)
    app.connect("html-page-context", drop_repeated_scripts, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
