"""The page in a real browser: each tab by keyboard alone, in both languages, on a phone, with a key, and when requests
fail. Skipped without a Chromium on the path or without `pip install playwright` (1.65 was used; it is in no extra,
since it needs a browser). `.ci/run` installs it where there is a Chromium, and runs these tests:

    pytest -m slow tests/serve/test_page_in_browser.py
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from canned_model import HEADS, LAYERS, CannedModel
from chromium import CHROMIUM
from held_model import wait_until

from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.service import Service

pytest.importorskip("playwright.sync_api", reason="pip install playwright")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")]
TABS = ["classify", "answer", "tag", "similar", "fill-mask", "attention", "tokenize"]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def serve_pages() -> Iterator[Callable[..., str]]:
    """`serve_pages(api_key)`: the address of a server with canned models, in a thread."""
    import uvicorn

    import kobert_pipeline.serve.model  # noqa: F401  the first ranking would import it, which takes seconds
    from kobert_pipeline.serve.server import listen, url

    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(api_key: bytes | None = None) -> str:
        service = Service({"canned": "a", "pairs": "b"}, Limits(), CannedModel)  # type: ignore[arg-type]
        server = uvicorn.Server(uvicorn.Config(create_app(service, api_key), log_level="error"))
        listener = listen("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running.append((server, thread))
        wait_until(lambda: server.started and service.ready, 30)
        return url(listener)

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def address(serve_pages: Callable[..., str]) -> str:
    return serve_pages()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """`visit(address, language, width)`: the page. The test fails where it asks another host, or its script fails."""
    elsewhere, failed, contexts = list[str](), list[str](), list[Any]()

    def open_page(address: str, language: str = "en-US", width: int = 900) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 740}, locale=language)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda one: one.url.startswith((f"{address}/", "data:")) or elsewhere.append(one.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("dialog", lambda dialog: failed.append(dialog.message))
        page.goto(f"{address}/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not elsewhere and not failed


def open_tab(page: Any, name: str) -> Any:
    """The panel of a tab, chosen by arrow keys."""
    page.wait_for_selector("[role=tab][aria-selected=true]")
    page.focus("[role=tab][aria-selected=true]")
    for _ in TABS:
        if page.get_attribute(f"#tab-{name}", "aria-selected") == "true":
            break
        page.keyboard.press("ArrowRight")
    assert page.get_attribute(":focus", "id") == f"tab-{name}"
    assert page.locator("[role=tabpanel]:visible").count() == 1
    return page.locator(f"#panel-{name}")


def submit(panel: Any, **texts: str) -> str:
    """Type texts into their fields, run with the keyboard, and return the sentence that is read out."""
    for field, text in texts.items():
        place = panel.locator(f"[id$='-{field}']")
        place.focus()
        panel.page.keyboard.press("Control+a")
        panel.page.keyboard.insert_text(text)
    panel.page.keyboard.press("Control+Enter")
    panel.locator(".said:not(:empty)").wait_for()
    panel.locator(".result:not([aria-busy])").wait_for()
    return str(panel.locator(".said").inner_text())


def test_tabs_show_the_answers_of_the_server(address: str, visit: Any) -> None:
    page = visit(address)
    page.wait_for_selector("[role=tab][aria-selected=true]")  # the page asks the server for its models first
    ids = page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.id)")
    assert ids == [f"tab-{name}" for name in TABS]

    panel = open_tab(page, "classify")
    assert panel.locator(".faint").first.inner_text() == "canned · nsmc (test): accuracy 84.73"
    assert submit(panel, text="좋다") == "Label: positive (97.4%)"
    assert panel.locator(".bars li").all_inner_texts() == ["positive\n97.4%", "negative\n2.6%"]

    panel = open_tab(page, "answer")
    context = "😀 세종대왕이 1443년에 만들었다"
    assert submit(panel, question="언제?", context=context) == "Answer: 1443년"
    assert panel.locator("mark").inner_text() == "1443년" and panel.locator(".text").inner_text() == context

    panel = open_tab(page, "tag")
    assert submit(panel, text="😀 지호는 강릉에 갔다") == "Entities found: 2"
    assert panel.locator("mark").all_inner_texts() == ["지호사람", "강릉<곳>"]
    assert len(set(panel.locator("mark").evaluate_all("marks => marks.map(mark => mark.className)"))) == 2

    panel = open_tab(page, "similar")
    assert submit(panel, query="글", texts="나\n\n가") == "The most similar: 가"
    assert panel.locator(".bars li").all_inner_texts() == ["가\n0.900", "나\n0.400"]

    panel = open_tab(page, "fill-mask")
    assert submit(panel, text="빈칸 없음") == "Write [MASK] where a word is missing."
    assert submit(panel, text="이 영화 [MASK] 재밌다") == "[1] The likeliest: 정말 (25.0%)"
    assert panel.locator(".bars li").all_inner_texts() == ["정말\n25.0%", "너무\n12.5%"]

    panel = open_tab(page, "attention")
    assert submit(panel, text="좋다").startswith("Largest weights: 다 → 좋 1.000, 좋 → 좋 0.750, [CLS] → [CLS] 0.500")
    assert panel.locator("svg path").count() == 7, "a weight is zero in each of two places"
    assert panel.locator("#attention-layer option").count() == LAYERS
    assert panel.locator("#attention-head option").count() == HEADS + 1
    page.select_option("#attention-word", "1")
    assert panel.locator(".said").inner_text() == "좋 reads from: 좋 0.750, [CLS] 0.125, 다 0.125"
    assert panel.locator("svg path").count() == 3

    panel = open_tab(page, "tokenize")
    assert submit(panel, text="a b") == "Tokens: 4, characters: 3"
    cells = panel.locator("tbody tr").all_inner_texts()
    assert [cell.split("\t") for cell in cells][:2] == [["[CLS]", "2", ""], ["a", "97", "0–1"]]


def test_texts_and_labels_never_become_html(address: str, visit: Any) -> None:
    page = visit(address)
    for name, field in (("tag", "text"), ("answer", "context"), ("tokenize", "text"), ("similar", "texts")):
        panel = open_tab(page, name)
        others = {"question": HOSTILE} if name == "answer" else {"query": HOSTILE} if name == "similar" else {}
        submit(panel, **others, **{field: HOSTILE})
        assert panel.locator("img").count() == 0
        assert "onerror" in panel.locator(".details").inner_text()


def test_examples_fill_the_fields_and_run(address: str, visit: Any) -> None:
    page = visit(address)
    for name in TABS:
        panel = open_tab(page, name)
        panel.locator(".examples button").first.focus()
        page.keyboard.press("Enter")
        panel.locator(".said:not(:empty)").wait_for()
        assert panel.locator(".wrong").count() == 0, name
        assert all(panel.locator("input, textarea:visible").evaluate_all("fields => fields.map(field => field.value)"))


def test_a_model_of_pairs_asks_for_the_second_text(address: str, visit: Any) -> None:
    page = visit(address)
    panel = open_tab(page, "classify")
    assert not panel.locator("#classify-textPair").is_visible()
    page.select_option("#classify-model", "pairs")
    assert submit(panel, text="비가 온다") == "Write a text first."
    assert page.get_attribute(":focus", "id") == "classify-textPair"
    assert submit(panel, textPair="날씨가 흐리다") == "Label: positive (97.4%)"


def test_language_is_the_browsers_until_it_is_changed_and_answers_stay(address: str, visit: Any) -> None:
    page = visit(address, "ko-KR")
    panel = open_tab(page, "answer")
    assert page.get_attribute("html", "lang") == "ko"
    assert page.locator("#tab-answer").inner_text() == "질의응답"
    assert submit(panel, question="언제?", context="😀 세종대왕이 1443년에 만들었다") == "답: 1443년"
    page.click("text=English")
    assert page.get_attribute("html", "lang") == "en" and page.locator("#tab-answer").inner_text() == "Questions"
    assert panel.locator(".said").inner_text() == "Answer: 1443년" and panel.locator("mark").inner_text() == "1443년"
    assert page.get_attribute("[lang=en][aria-pressed]", "aria-pressed") == "true"


@pytest.mark.parametrize("language", ["ko-KR", "en-US"])
def test_a_phone_needs_no_horizontal_scrolling(address: str, visit: Any, language: str) -> None:
    page = visit(address, language, 360)
    page.locator("#models").wait_for()
    page.locator("#models summary").click()
    for name in TABS:
        panel = open_tab(page, name)
        long = "가나다라마바사아자차카타파하" * 20
        fields = {"answer": ["question", "context"], "similar": ["query", "texts"]}.get(name, ["text"])
        submit(panel, **dict.fromkeys(fields, f"{long}[MASK]"))
        assert panel.locator(".wrong").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name


def test_every_field_has_a_label_and_every_part_a_role(address: str, visit: Any) -> None:
    page = visit(address)
    for name in TABS:
        panel = open_tab(page, name)
        for field in panel.locator("input, textarea, select").all():
            if field.is_visible():
                assert panel.locator(f"label[for='{field.get_attribute('id')}']").inner_text(), name
        assert panel.get_attribute("aria-labelledby") == f"tab-{name}"
        assert panel.locator(".said").get_attribute("aria-live") == "polite"
        assert page.get_attribute(f"#tab-{name}", "aria-controls") == f"panel-{name}"
    assert page.get_attribute("#tabs", "aria-label") == "What the models can do"
    page.click("text=Models of this server")
    rows = page.locator("#models tbody tr").all_inner_texts()
    assert rows[1].split("\t") == ["pairs", "Labels", ""] and rows[0].startswith("canned\tLabels, Questions, Entities")


def test_the_key_is_asked_for_and_forgotten(serve_pages: Any, visit: Any) -> None:
    page = visit(serve_pages(b"secret"))
    for key in ("wrong", "secret"):
        page.locator("#key-value").wait_for()
        assert page.get_attribute(":focus", "id") == "key-value" and page.locator("[role=tab]").count() == 0
        page.keyboard.insert_text(key)
        page.keyboard.press("Enter")
        page.locator("#status:text('The key is wrong.'), [role=tab]").first.wait_for()
    assert not page.locator("#key").is_visible()
    assert submit(open_tab(page, "classify"), text="좋다") == "Label: positive (97.4%)"
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.reload()
    page.locator("#key-value").wait_for()


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (429, {"Retry-After": "7"}, "The server is busy. Try again in 7 s."),
        (400, {}, "The server refused this: no served model"),
        (413, {}, "The text is too long for this server."),
        (500, {}, "The server failed; its log says where."),
        (503, {}, "The server is loading its models or shutting down. Try again in a moment."),
        (504, {}, "The server did not answer in time. Try a shorter text, or try later."),
        (None, {}, "The server cannot be reached. It may have stopped, or the network is down."),
    ],
)
def test_errors_are_sentences(address: str, visit: Any, status: int | None, headers: dict[str, str], said: str) -> None:
    page = visit(address)
    panel = open_tab(page, "classify")
    content = {"error": {"message": "no served model", "type": "x"}}
    page.route(
        "**/v1/classify",
        lambda route: route.abort() if status is None else route.fulfill(status=status, headers=headers, json=content),
    )
    assert submit(panel, text="좋다") == said
    assert panel.locator(".said.wrong").count() == 1 and panel.locator(".details > *").count() == 0
    page.unroute("**/v1/classify")
    page.keyboard.press("Control+Enter")
    panel.locator(".said:not(.wrong)").wait_for()
    assert panel.locator(".said").inner_text() == "Label: positive (97.4%)"
