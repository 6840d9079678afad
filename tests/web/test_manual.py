"""The documentation and the reference of the API, as the service itself serves them."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urldefrag, urljoin

import pytest
from django.conf import settings

from webapp.manual.markdown import render

FILES = sorted((settings.BASE_DIR / "docs").rglob("*.md"))
pytestmark = pytest.mark.django_db


def page(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def article(html: str) -> str:
    return html[html.index("<article") : html.index("</article>")]


def anchors(html: str) -> set[str]:
    return set(re.findall(r' id="([^"]+)"', html))


def test_every_file_is_listed_and_every_link_in_it_leads_somewhere(anonymous):
    contents = page(anonymous, "/docs/")
    listed = re.findall(r'class="name" href="(/docs/[^"]+/)"', contents)
    pages = {address: page(anonymous, address) for address in listed}

    assert len(set(listed) - {"/docs/api/"}) == len(FILES)
    for address, html in pages.items():
        for href in re.findall(r'href="([^"]*)"', article(html) if "<article" in html else ""):
            assert href, f"{address} links to nothing"
            target, anchor = urldefrag(urljoin(address, unescape(href)))
            if target.startswith("/docs/"):
                assert not anchor or anchor in anchors(pages[target]), f"{address}: {href}"


def test_no_table_has_an_empty_head(anonymous):
    listed = re.findall(r'class="name" href="(/docs/[^"]+/)"', page(anonymous, "/docs/"))
    read = {address: page(anonymous, address) for address in listed}
    assert "<td></td>" in read["/docs/money/"]
    assert [address for address, html in read.items() if re.search(r"<th[^>]*></th>", html)] == []


@pytest.mark.parametrize("name", ["no-such-page", "../README", "decisions", "%2e%2e/settings"])
def test_only_documents_are_pages(anonymous, name):
    assert anonymous.get(f"/docs/{name}/").status_code == 404


def test_a_search_finds_the_sections_with_all_words(anonymous):
    found = page(anonymous, "/docs/?q=Daly+interval")
    first = re.search(r'class="name" href="(/docs/[^"]+)">([^<]+)<', found)

    assert first
    assert "<mark>" in found
    target, anchor = urldefrag(first[1])
    assert not anchor or anchor in anchors(page(anonymous, target))
    assert "No section has all of these words." in page(anonymous, "/docs/?q=Daly+xyzzyq")


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("prices", "/docs/prices/"),
        ("tokens", "/docs/accounts/#tokens"),
        ("notifications", "/docs/notifications/"),
        ("the agent", "/docs/agent/"),
        ("slurm", "/docs/recipes/#slurm"),
    ],
)
def test_a_search_lists_what_the_words_name_first(anonymous, asked, first):
    found = page(anonymous, f"/docs/?q={asked.replace(' ', '+')}")
    hit = re.search(r'class="name" href="(/docs/[^"]+)">', found)
    assert hit
    assert hit[1].startswith(first)


def test_what_is_searched_for_is_text(anonymous):
    assert "<script>alert" not in page(anonymous, "/docs/?q=%3Cscript%3Ealert(1)%3C/script%3E")


def test_markup_in_a_document_is_text_and_tables_have_no_styles():
    source = "# A `b`\n\n<script>x</script> [x](javascript:1)\n\n|a|b|\n|--|--:|\n|1|2|\n"
    document = render(source, "a", lambda name: None)

    assert document.title == "A b"
    assert "<script" not in document.html
    assert "href=" not in document.html
    assert "style=" not in document.html
    assert '<td class="number">2</td>' in document.html


def test_headings_have_the_anchors_that_links_name():
    source = "# T\n\n## Lost work\n\n## `a_b` & c\n\n## Lost work\n\n[x](other.md#y) [z](b.md)"
    document = render(source, "folder/a", lambda name: f"/{name}" if "other" in name else None)

    assert anchors(document.html) == {"lost-work", "a_b--c", "lost-work-1"}
    assert 'href="/folder/other#y"' in document.html


def test_the_reference_has_every_operation_and_every_type_by_section(anonymous):
    contents = page(anonymous, "/docs/api/")
    listed = dict.fromkeys(re.findall(r'href="(/docs/api/\w+/)', contents))
    pages = {address: page(anonymous, address) for address in listed}
    document = anonymous.get("/api/v1/openapi.json").json()

    operations = [each for methods in document["paths"].values() for each in methods.values()]
    assert len(operations) > 30
    for each in operations:
        address = f"/docs/api/{each['tags'][0]}/"
        assert each["operationId"] in anchors(pages[address])
        assert f'href="{address}#{each["operationId"]}"' in contents
    types = {f"type-{name}" for name in document["components"]["schemas"]}
    assert types <= anchors(pages["/docs/api/types/"])
    for address, html in pages.items():
        for target, anchor in re.findall(r'href="(/docs/api/\w+/)?#([^"]+)"', html):
            assert anchor == "page" or anchor in anchors(pages[target or address])
    assert anonymous.get("/docs/api/nothing/").status_code == 404


def test_the_reference_is_found_beside_the_api_and_in_the_bar(anonymous, owner):
    moved = anonymous.get("/api/v1/docs")

    assert (moved.status_code, moved["Location"]) == (302, "/docs/api/")
    assert 'href="/docs/"' in owner.page("/rules/")


def test_a_drawing_of_the_documentation_is_part_of_its_page(anonymous):
    images = re.findall(r'<img src="([^"]*)" alt="([^"]+)"', page(anonymous, "/docs/architecture/"))

    assert [source.split(",")[0] for source, _ in images] == ["data:image/svg+xml;base64"]


def test_only_drawings_of_the_documentation_are_shown():
    source = "![a](images/a.svg) ![b](../secret.svg)"
    known = {"images/a.svg": "data:a"}
    html = render(source, "a", lambda name: None, known.get).html

    assert '<img src="data:a" alt="a"' in html
    assert '<img src="../secret.svg" alt="b"' in html
