"""The site's pages beyond docs/: SECURITY.md, one for each public module, and links to these. Read by mkdocs.yml."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_security() -> None:
    """Copies SECURITY.md, which others look for in the root of the repository."""
    import mkdocs_gen_files

    with mkdocs_gen_files.open("security.md", "w") as file:
        file.write((ROOT / "SECURITY.md").read_text())


def write_reference() -> None:
    """Writes a page for each public module of ipsrl, from its docstrings, and their list."""
    import mkdocs_gen_files

    nav = mkdocs_gen_files.Nav()
    for path in sorted((ROOT / "ipsrl").rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("")
        is_package = path.name == "__init__.py"
        parts = module.parts[:-1] if is_package else module.parts
        page = Path(*parts, "index.md") if is_package else module.with_suffix(".md")
        nav[parts] = page.as_posix()
        with mkdocs_gen_files.open(Path("reference") / page, "w") as file:
            file.write(f"# `{'.'.join(parts)}`\n\n::: {'.'.join(parts)}\n")
    with mkdocs_gen_files.open("reference/SUMMARY.md", "w") as file:
        file.writelines(nav.build_literate_nav())


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Replaces a link to a module's file, which the site does not have, by one to the page of the module."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\]\(\.\./(ipsrl/[\w/]+)\.py\)", rf"]({up}reference/\1.md)", markdown)


# mkdocs-gen-files runs this file as a script with this name; mkdocs imports it as a hook.
if __name__ == "<run_path>":
    write_reference()
    write_security()
