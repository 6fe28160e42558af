"""Chat logs: the exports of KakaoTalk, and others with a time and a name before each message (WhatsApp, LINE, Telegram,
Discord, IRC, transcripts of meetings)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

WEEKDAY = (
    r"(?:\([월화수목금토일]\)|[월화수목금토일]요일|[月火水木金土日]曜日|星期[一二三四五六日天]|"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)"
)
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
DATE = (
    rf"(?:\d{{2,4}}\s?[-./년年]\s?\d{{1,2}}\s?[-./월月]\s?\d{{1,4}}[.일日]?|{MONTH} \d{{1,2}}, \d{{4}}|"
    rf"\d{{1,2}}[- ]{MONTH}[- ]\d{{2,4}})(?:,?\s?{WEEKDAY})?"
)
HALF = r"(?:오전|오후|午前|午後|上午|下午|[AaPp]\.?[Mm]\.?)"
TIME = rf"(?:{HALF}\s?)?\d{{1,2}}(?::\d\d(?::\d\d)?|시\s?\d{{1,2}}분)(?:\s?{HALF})?"
STAMP = rf"(?:(?P<date>{DATE})(?:,| at)?[\sT]\s?)?{TIME}"
NAME = r"(?P<name>[^\s:\[\]<>|][^\n\t:\[\]<>|]{0,40}?)"
MESSAGES = [
    re.compile(form)
    for form in (
        rf"\[(?P<name>.{{1,60}}?)\] \[{STAMP}\] (?P<text>.*)",  # KakaoTalk on a PC
        rf"{STAMP}, (?P<name>.{{1,60}}?) : (?P<text>.*)",  # KakaoTalk on a phone
        rf"[\[(]?{STAMP}[\])]?\s?<[ @+%&~]?{NAME}>\s?(?P<text>.*)",  # IRC
        rf"{STAMP}\t{NAME}\t(?P<text>.*)",  # LINE
        rf"[\[(]?{STAMP}[\])]?(?:\s?[-–,|])?\s?{NAME}\s?:(?:\s(?P<text>.*)|$)",  # WhatsApp and many others
        rf"{NAME}\s?[\[(]{STAMP}[\])]\s?:\s?(?P<text>.*)",
        rf"{NAME},\s\[{STAMP}\](?P<text>)$",  # Telegram, whose messages are in the lines below
        rf"\[{STAMP}\] {NAME}(?P<text>)$",  # Discord, likewise
        rf"{NAME}\s+(?P<half>{HALF}\s?)?\d{{1,2}}:\d\d(?(half)|\s?{HALF})(?P<text>)$",  # Slack, likewise
    )
]
"""The first line of a message: its time, its sender, and the text."""
KAKAOTALK, LINE, WHATSAPP = MESSAGES[:2], MESSAGES[3], MESSAGES[4]
TRANSCRIPT = [re.compile(rf"{NAME}\s+[\[(]?\d{{1,2}}:\d\d(?::\d\d)?[\])]?(?P<text>)$")]
"""The first line of what somebody says in the transcript of a meeting (Clova Note). A line of a chat may look like it,
so a log is read as one or the other."""
LINE_PARTNER = re.compile(
    r"\[LINE\] (?:(?P<partner>.+?)님과의 대화|Chat history with (?P<other>.+?))\s*$", re.MULTILINE
)
HEADER = re.compile(
    r"\s*(?:.{0,100}(?:카카오톡 대화|KakaoTalk Chats?\b).*\n(?:저장한 날짜|Date Saved)\s?:|"
    r"\[LINE\] .*\n|Date,User,Message\s*\n)"
)
"""How exports of KakaoTalk and LINE begin."""
DAY = re.compile(rf"-*\s*(?:{WEEKDAY},? )?(?P<date>{DATE})\s*-*$")
"""A line between the messages of two days."""
STAMPED = rf"{DATE}(?:,| at)?\s{TIME}"
HAPPENED = (
    rf"(?:(?:{TIME} )?.{{1,60}}님(?:이|을|께서) "
    r"(?:(?:(?:\S*방|그룹)\S+ )?(?:들어왔|나갔)|.*(?:초대했|초대하였|내보냈|(?:메시지|초대).{0,10}취소했))습니다\.?"
    r"(?:$|(?<=\.)타인, 기관)"  # a warning follows without a blank in open chats
    r"|.{1,60} (?:joined|left) this chatroom\.$|채팅방 관리자가 메시지를 가렸습니다\.?$)"
)
EVENT = re.compile(rf"{STAMPED}(?:$|[,:]\s)|{HAPPENED}")
"""A line about the chat, such as who joined it, and nothing that anybody said after it."""
WHATSAPP_EVENT = re.compile(rf"{STAMPED}\s[-–]\s")
"""The same on an Android phone, where other logs have an appointment that somebody wrote down."""
AS_WRITTEN = re.compile(rf"(?!{HAPPENED})(?:{DATE}$|{STAMPED}(?:$|[,:]\s|\s[-–]\s))")
"""A line that somebody may have written, too: it begins with a date."""
NOT_TEXT = re.compile(
    r"(?:사진(?: \d+장)?|동영상|이모티콘|음성메시지|삭제된 메시지입니다\.?|채팅방 관리자가 메시지를 가렸습니다\.?|"
    r"파일 ?: .*\.[A-Za-z0-9]{1,5}|지도: .*|샵검색: #.*|"
    r"(?:보이스톡|페이스톡|라이브톡) (?:해요|취소|부재중|응답 ?없음|거절|시작|종료|\d{1,2}(?::\d\d){1,2})|"
    r"Photos?|\d+ photos|Video|Emoticons?|This message was deleted\.|"
    r"\[(?:사진|동영상|스티커|파일|음성 ?메시지|앨범|노트|위치정보|연락처|Photo|Video|Sticker|File|Voice message)\]|"
    r"☎ \D{1,20}(?:\d+(?::\d\d){1,2})?|"
    r"(?:이미지|동영상|오디오|스티커|GIF|문서) 생략됨|"
    r"<(?:미디어 파일 제외됨|미디어 파일을 제외한 내용|Media omitted)>)$"
)
"""What an export writes in place of a picture, a file or a call; a message that only begins so was typed."""
MARKS = "\ufeff\u200e\u200f"
"""What may be before a line: a byte order mark, and marks of direction (WhatsApp on an iPhone)."""
FEWEST = 4
"""Messages of a log that no header announces; each sender has two of them on average."""


Block = tuple[str | None, list[str]]
"""The lines of one message, and the date that stands there, if any; or an event or a date without a message."""


Forms = list[re.Pattern[str]]


def forms_of(head: str) -> Forms | None:
    """The forms of first lines in a chat log that begins with `head`: exported with a header, or with many lines that
    begin with a time and one of a few names. A programme, whose lines begin with times too, has other words after each.
    None for what is no chat log."""
    if head.lstrip("\ufeff \r\n").startswith("[LINE]"):
        return [LINE, *_line_on_a_pc(head)]
    if HEADER.match(head):
        return KAKAOTALK
    forms = next((forms for forms in (MESSAGES, TRANSCRIPT) if _has_messages(head, forms)), None)
    return _used(head, forms) if forms else None


def _used(head: str, forms: Forms) -> Forms:
    """The forms that a tenth of the messages have, or more: a line of a message may look like another program's."""
    counts = Counter(form for line in head.splitlines() if (form := next((f for f in forms if f.match(line)), None)))
    return [form for form in forms if 10 * counts[form] >= counts.total()]


def _has_messages(head: str, forms: Forms) -> bool:
    lines = [line for line in head.splitlines() if line.strip()]
    first_lines = [match for line in lines if (match := _first_line(line, forms))]
    names = Counter(match["name"] for match in first_lines)
    messages = names.total()
    # a time table has names and times, and nothing that is said
    said = len(lines) - messages + sum(bool(match["text"]) for match in first_lines)
    return messages >= FEWEST and 2 * len(names) <= messages <= said and 4 * messages >= len(lines)


def _line_on_a_pc(head: str) -> Forms:
    """The form of LINE's messages on a PC, `15:10 NAME TEXT`: a name is one word, or that of the header."""
    if not head.lstrip("\ufeff").startswith("[LINE]"):
        return []
    match = LINE_PARTNER.match(head.lstrip("\ufeff"))
    partner = re.escape((match["partner"] or match["other"]) if match else "")
    return [
        re.compile(rf"(?!{EVENT.pattern}|{WHATSAPP_EVENT.pattern}){STAMP} (?P<name>{partner}(?=\s)|\S+)\s(?P<text>.*)")
    ]


def blocks(lines: Iterable[str], forms: Forms = MESSAGES) -> Iterator[Block]:
    """The messages of a log in order, without times and names; none of what is before the first, or below an event."""
    date: str | None = None
    text, in_message = list[str](), False
    for line, after in pairwise(chain(filter(None, map(str.rstrip, lines)), [""])):
        message = _first_line(line, forms)
        event = None if message else _event(line, forms)
        if event and in_message and AS_WRITTEN.match(line) and not _starts(after, forms):
            event = None  # somebody did: what begins a day has a message or an event after it
        if start := message or event:
            yield date, text
            date, in_message = start.groupdict().get("date"), bool(message)
            text = [message["text"]] if message and message["text"] else []
        elif in_message:
            text.append(line)
    yield date, text


def days(blocks: Iterable[Block]) -> Iterator[list[str]]:
    """The messages of each day, without events and what stands for pictures. The lines of a message stay lines."""
    messages, last_date = list[str](), ""
    for date, text in blocks:
        if date and date != last_date:
            if messages:
                yield messages
            messages, last_date = [], date
        # a message of several lines was typed, whatever its first line looks like
        if len(text) > 1 or (text and not NOT_TEXT.match(text[0].lstrip(MARKS))):
            messages.append("\n".join(text))
    if messages:
        yield messages


def is_event(message: str, user: str) -> bool:
    """Whether a message of a table is about the chat: it names the row's user, as in who joined or left."""
    return message.startswith(user) and bool(re.match(HAPPENED, message))


def _starts(line: str, forms: Forms) -> bool:
    """Whether a message, an event or a day begins with a line, or the log ends there, where it is ""."""
    return not line or bool(_first_line(line, forms) or _event(line, forms))


def _event(line: str, forms: Forms) -> re.Match[str] | None:
    return DAY.match(line) or EVENT.match(line) or (WHATSAPP_EVENT.match(line) if WHATSAPP in forms else None)


def _first_line(line: str, forms: Forms) -> re.Match[str] | None:
    return next((match for form in forms if (match := form.match(line.lstrip(MARKS)))), None)
