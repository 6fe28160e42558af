"""Text in a format that is not prose: recognized by its beginning, refused by the readers of prose, and read without
numbers, times and names by its own reader."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.sampling import check_sources, left_out
from kobert_pipeline.tables.chat import days
from kobert_pipeline.tables.file_type import is_html, text_format
from kobert_pipeline.tables.unreadable import UnreadableInput

SUBTITLES = {
    "srt": (
        "1\r\n00:00:01,000 --> 00:00:04,000\r\n<i>비가 오네요</i>\r\n우산 있어요?\r\n\r\n"
        "2\r\n00:00:05,000 --> 00:00:06,000\r\n- 아니요.\r\n\r\n3\r\n00:00:07,000 --> 00:00:08,000\r\n12\r\n",
        {"0": "비가 오네요 우산 있어요?\n- 아니요.\n12"},
    ),
    "vtt": (
        "WEBVTT\n\nNOTE 주석\n\n첫 장면\n00:01.000 --> 00:04.000 align:start\n비가 오네요\n\n"
        "00:05.000 --> 00:06.000\n비가 오네요\n",
        {"0": "비가 오네요"},
    ),
    "sbv": ("0:00:01.000,0:00:02.500\n비가\n오네요\n\n0:00:03.000,0:00:04.000\n네\n", {"0": "비가 오네요\n네"}),
    "vtt ": (
        "WEBVTT\nKind: captions\n\n00:00:00.000 --> 00:00:02.000 align:start\n비가<00:00:00.500><c> 오네요</c>\n\n"
        "00:00:02.000 --> 00:00:02.010\n비가 오네요\n \n\n00:00:02.010 --> 00:00:04.000\n비가 오네요\n우산<c>은?</c>\n",
        {"0": "비가 오네요\n우산은?"},
    ),
    "smi": (
        "<SAMI>\n<HEAD><STYLE><!-- P {} .KRCC {} --></STYLE></HEAD>\n<BODY>\n"
        "<SYNC Start=1><P Class=KRCC>\n비가<br>오네요\n"
        "<SYNC Start=2><P Class=KRCC>&nbsp;\n<SYNC Start=3><P Class=KRCC>또 봐요<P Class=ENCC>See you\n</BODY></SAMI>",
        {"KRCC": "비가 오네요\n또 봐요", "ENCC": "See you"},
    ),
    "smi ": (
        "<SAMI><BODY><SYNC Start=1><P Class=KRCC>1부예요\n</BODY></SAMI>\n"
        "<SAMI><HEAD><TITLE>2부</TITLE></HEAD><BODY><SYNC Start=1><P Class=KRCC>2부예요\n</BODY></SAMI>",
        {"KRCC": "1부예요\n2부예요"},
    ),
    "ass": (
        "[Script Info]\nTitle: x\n[Events]\n"
        "Dialogue: 0,0:00:01.00,0:00:04.00,A,,0,0,0,,{\\an8}비가, 오네요\\N우산은?\n"
        "Dialogue: 0,0:00:05.00,0:00:06.00,A,,0,0,0,,{\\p1}m 0 0 l 1280 0 1280 720{\\p0}{\\pos(1,1)}네\n"
        "Dialogue: 0,0:00:07.00,0:00:08.00,A,,0,0,0,,{\\an7\\p2}m 0 0 l 9 9\n",
        {"0": "비가, 오네요 우산은?\n네"},
    ),
    "sub": ("{1}{25}비가|오네요\n{30}{40}{y:i}네\n", {"0": "비가 오네요\n네"}),
    "sbv ": (
        "0:00:01.000,0:00:02.000\n3\n\n0:00:02.000,0:00:03.000\n2\n\n0:00:03.000,0:00:04.000\n출발합니다\n",
        {"0": "3\n2\n출발합니다"},
    ),
    "srt ": (
        "1\n00:00:01,000 --> 00:00:04,000\n<font color=red>어제</font> <기생충> 봤어?\n\n"
        "2\n00:00:05,000 --> 00:00:06,000\n<v.loud 이모>3 < 5 그리고 6 > 2\n\n"
        "3\n00:00:07,000 --> 00:00:08,000\n<Parasite>라고도 해\n",
        {"0": "어제 <기생충> 봤어?\n3 < 5 그리고 6 > 2\n<Parasite>라고도 해"},
    ),
    "lrc": ("[ti:제목]\n[00:01.00]비가 오네요\n[00:02.50]네\n", {"0": "비가 오네요\n네"}),
}

CHATS = {
    "messages that look like days and events": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "--------------- 2023년 5월 1일 월요일 ---------------\n"
        "[이모] [오전 9:10] 산행 공지합니다\n2023년 5월 7일 일요일\n\n북한산 입구에서 만나요\n"
        "2023년 5월 7일 오전 9:30, 2번 출구\n"
        "부장님이 갑자기 회의실에 들어왔습니다.\n물도요\n[삼촌] [오전 9:11] 선생님이 저를 초대했습니다. 갈게요\n"
        "이모님이 삼촌님을 초대했습니다.\n"
        "--------------- 2023년 5월 2일 화요일 ---------------\n[삼촌] [오후 1:02] 네\n",
        [
            "산행 공지합니다\n2023년 5월 7일 일요일\n북한산 입구에서 만나요\n2023년 5월 7일 오전 9:30, 2번 출구\n"
            "부장님이 갑자기 회의실에 들어왔습니다.\n물도요\n선생님이 저를 초대했습니다. 갈게요",
            "네",
        ],
    ),
    "appointments in a message": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "[이모] [오전 9:10] 일정 공지\n2023-05-03 15:00 - 회의\n2023-05-04 15:00 - 회식\n[삼촌] [오전 9:11] 네\n",
        ["일정 공지\n2023-05-03 15:00 - 회의\n2023-05-04 15:00 - 회식\n네"],
    ),
    "appointments in a message of LINE on a PC": (
        "[LINE] 이모님과의 대화\n저장한 날짜: 2023/05/02 10:15\n\n2023.05.01 월요일\n10:00 이모 일정 공지\n"
        "2023.05.03 15:00 - 회의\n2023.05.04 15:00 - 회식\n10:01 나 네\n10:02 이모 응\n",
        ["일정 공지\n2023.05.03 15:00 - 회의\n2023.05.04 15:00 - 회식\n네\n응"],
    ),
    "messages that look like events": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "--------------- 2023년 5월 1일 월요일 ---------------\n"
        "[이모] [오후 2:59] 2023년 5월 7일 오후 7:00\n시청역 3번 출구\n[이모] [오후 3:00] 2023-05-07 19:00, 거기서요\n"
        "[삼촌] [오후 3:01] 지도: 아래를 봐\n역 앞이야\n[삼촌] [오후 3:02] 지도: 시청역\n",
        ["2023년 5월 7일 오후 7:00\n시청역 3번 출구\n2023-05-07 19:00, 거기서요\n지도: 아래를 봐\n역 앞이야"],
    ),
    "messages that were typed as the program writes": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "[이모] [오후 3:00] 부장님이 내일 회의를 취소했습니다.\n[삼촌] [오후 3:01] 선생님이 저를 집으로 초대했습니다\n"
        "[삼촌] [오후 3:02] 보이스톡 할 시간 있으면 저녁에 하자\n[이모] [오후 3:03] 보이스톡 해요\n"
        "[이모] [오후 3:04] 파일 : 어제 보낸 거 다시 확인해 줘\n[이모] [오후 3:05] 파일: 산행 계획.hwp\n"
        "[삼촌] [오후 3:06] 페이스톡 12:34\n[삼촌] [오후 3:07] ☎ 02-123-4567로 하세요\n어제\n"
        "부장님이 회의를 취소했습니다.\n[삼촌] [오후 3:08] 채팅방 관리자가 메시지를 가렸습니다.\n",
        [
            "부장님이 내일 회의를 취소했습니다.\n선생님이 저를 집으로 초대했습니다\n"
            "보이스톡 할 시간 있으면 저녁에 하자\n파일 : 어제 보낸 거 다시 확인해 줘\n☎ 02-123-4567로 하세요\n어제\n"
            "부장님이 회의를 취소했습니다."
        ],
    ),
    "KakaoTalk on a PC": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "--------------- 2023년 5월 1일 월요일 ---------------\n"
        "[이모] [오전 9:10] 내일 비 온대요\n우산 챙기세요\n[삼촌/60] [오전 9:11] 사진\n이모님이 나갔습니다.\n"
        "--------------- 2023년 5월 2일 화요일 ---------------\n[삼촌/60] [오후 1:02] 네\n",
        ["내일 비 온대요\n우산 챙기세요", "네"],
    ),
    "KakaoTalk on Android": (
        "산악회 님과 카카오톡 대화\n저장한 날짜 : 2023년 5월 2일 오후 9:10\n\n2023년 5월 1일 오전 9:01\n"
        "2023년 5월 1일 오전 9:10, 이모 : 내일 비 온대요\n2023년 5월 1일 오전 9:11, 삼촌 : 네: 알아요\n",
        ["내일 비 온대요\n네: 알아요"],
    ),
    "KakaoTalk on an iPhone": (
        "산악회 님과 카카오톡 대화\n저장한 날짜 : 2023. 5. 2. 오후 9:10\n\n2023년 5월 1일 월요일\n"
        "2023. 5. 1. 오전 9:10, 이모 : 내일 비 온대요\n2023. 5. 2. 오전 9:11, 이모님이 들어왔습니다.\n"
        "2023. 5. 2. 오전 9:12, 삼촌 : 네\n",
        ["내일 비 온대요", "네"],
    ),
    "KakaoTalk in English": (
        "Club KakaoTalk Chats with Kim\nDate Saved : May 2, 2023 at 21:10\n\nMay 1, 2023 at 15:10, Kim : 비 온대요\n"
        "May 1, 2023 at 15:11, Lee : Photo\nMay 1, 2023 at 15:12, Lee : 네\n",
        ["비 온대요\n네"],
    ),
    "lines of a message that other programs would begin one with": (
        "산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "[이모] [오후 3:10] 내일 모임\n시간 오후 7:00\n10:30 개회식: 인사\n장소 강남\n[삼촌] [오후 3:11] 네\n",
        ["내일 모임\n시간 오후 7:00\n10:30 개회식: 인사\n장소 강남\n네"],
    ),
    "a message with a colon in LINE on a PC": (
        "[LINE] 산악회\n\n2023.05.01 월요일\n15:10 이모 공지: 비 온대요\n",
        ["공지: 비 온대요"],
    ),
    "a time in a message of WhatsApp": (
        "".join(f"2023. 5. 1. 오후 3:{10 + n} - {'이모삼촌'[n % 2 * 2 :][:2]}: 글 {n}\n" for n in range(12))
        + "시간 오후 7:00\n장소 강남\n",
        ["".join(f"글 {n}\n" for n in range(12)) + "시간 오후 7:00\n장소 강남"],
    ),
    "KakaoTalk in Japanese": (
        "이모 とのカカオトーク\n保存日 : 2023-05-02 21:10:11\n\n--------------- 2023年5月1日月曜日 ---------------\n"
        "[이모] [午前 9:10] 비 온대요\n[삼촌] [午後 9:11] 네\n[이모] [午後 9:12] 응\n[삼촌] [午後 9:13] 잘 자요\n",
        ["비 온대요\n네\n응\n잘 자요"],
    ),
    "Slack": ("이모  9:10 AM\n비 온대요\n삼촌  오후 9:11\n네\n" * 2, ["비 온대요\n네\n" * 2]),
    "WhatsApp": (
        "2023. 5. 1. 오후 3:09 - 메시지는 종단간 암호화됩니다.\n2023. 5. 1. 오후 3:10 - 이모: 비 온대요\n"
        "2023. 5. 1. 오후 3:11 - 삼촌: <미디어 파일 제외됨>\n2023. 5. 1. 오후 3:12 - 삼촌: 네\n"
        '2023. 5. 1. 오후 3:12 - 삼촌님이 그룹 이름을 "산악회"(으)로 변경했습니다\n2023. 5. 1. 오후 3:13 - 이모: 응\n',
        ["비 온대요\n네\n응"],
    ),
    "WhatsApp on an iPhone": (
        "[2023. 5. 1. 오후 3:10:01] 이모: 비 온대요\n\u200e[2023. 5. 1. 오후 3:11:02] 삼촌: \u200e이미지 생략됨\n"
        "[2023. 5. 1. 오후 3:12:03] 삼촌: 네\n[2023. 5. 1. 오후 3:13:04] 이모: 응\n",
        ["비 온대요\n네\n응"],
    ),
    "an open chat of KakaoTalk": (
        "\ufeff산악회 님과 카카오톡 대화\n저장한 날짜 : 2023-05-02 21:10:11\n\n"
        "--------------- 2023년 5월 1일 월요일 ---------------\n[이모] [오전 9:10] 비 온대요\n"
        "김철수님이 들어왔습니다.타인, 기관 등의 사칭에 유의해 주세요. \n"
        "운영정책을 위반한 메시지로 신고 접수 시 이용에 제한이 있을 수 있습니다.\n[삼촌] [오전 9:11] 네\n",
        ["비 온대요\n네"],
    ),
    "LINE": (
        "[LINE] 이모님과의 대화\n저장 일시: 2023/05/02\n\n2023.05.01 월요일\n15:10\t이모\t비 온대요\n",
        ["비 온대요"],
    ),
    "LINE on a PC": (
        "[LINE] 김 이모님과의 대화\n저장한 날짜: 2023/05/02 10:15\n\n2023.05.01 월요일\n15:10 김 이모 비 온대요\n"
        "15:11 삼촌 [스티커]\n15:12 삼촌 네\n우산요\n15:13 김 이모님이 나갔습니다.\n\n2023.05.02 화요일\n"
        "오전 9:00 삼촌 ☎ 통화시간 0:15\n오전 9:10 삼촌 10:30에 갈게요\n",
        ["비 온대요\n네\n우산요", "10:30에 갈게요"],
    ),
    "LINE on a PC, a group": ("[LINE] 산악회\n\n2023.05.01 월요일\n15:10 이모 비 온대요\n", ["비 온대요"]),
    "a transcript": (
        "주간 회의\n2023.05.01 월 오후 2:00 ・ 25분 10초\n이모, 삼촌\n\n"
        "참석자 1 00:00\n비 온대요.\n우산요.\n\n참석자 2 00:12\n네.\n\n"
        "참석자 1 01:02\n서울역 9:10 차요.\n\n참석자 2 1:00:05\n네.\n",
        ["비 온대요.\n우산요.\n네.\n서울역 9:10 차요.\n네."],
    ),
    "Telegram": (
        "이모, [01.05.2023 21:10]\n비 온대요\n\n삼촌, [01.05.2023 21:11]\n네\n\n" * 2,
        ["비 온대요\n네\n" * 2],
    ),
    "Discord": (
        "[01-May-23 09:10 PM] imo\n비 온대요\n\n[01-May-23 09:11 PM] kim\n네\n\n" * 2,
        ["비 온대요\n네\n" * 2],
    ),
    "IRC": ("[21:10:11] <imo> 비 온대요\n[21:10:12] <@kim> 네\n" * 2, ["비 온대요\n네\n" * 2]),
    "a help desk": (
        "2023-05-01 21:10:11 상담원: 비 오나요\n2023-05-01 21:10:21 고객: 환불이요\n" * 2,
        ["비 오나요\n환불이요\n" * 2],
    ),
}

ARTICLES = (
    '<doc id="7" url="https://ko.wikipedia.org/wiki?curid=7" title="바다">\n'
    "바다\n\n바다는 짜다.\n\n\n물결이 인다.\n\n</doc>\n"
    '<doc id="8" url="https://ko.wikipedia.org/wiki?curid=8" title="섬 (동음이의)">\n'
    "섬 (동음이의)\n\n</doc>\n"
    '<doc id="9" url="https://ko.wikipedia.org/wiki?curid=9" title="&lt;섬&gt;">\n&lt;섬&gt;\n\n섬은 작다.\n</doc>\n'
)

OTHERS = {
    "mail": "From kim@example.kr Mon May  1 21:10:11 2023\nReturn-Path: <kim@example.kr>\n\n잘 지내나요.\n",
    "mail ": "Received: from a\n\tby b\nFrom: kim@example.kr\nTo: lee@example.kr\nSubject: 안부\n\n잘 지내나요.\n",
    "mail  ": "DKIM-Signature: v=1;\n\tb=x\nMIME-Version: 1.0\nFrom: kim@example.kr\n\n잘 지내나요.\n",
    "csv": "id\tdocument\tlabel\n" + "1\t물결이 인다\t1\n" * 3,
    "csv ": "강릉\tB-LC\n에\tO\n\n" * 2,
    "csv  ": "# sent_id = 1\n# text = 물결이 인다\n1\t물결이\t물결\t_\n2\t인다\t일다\t_\n\n" * 2,
    "csv   ": "## klue-1\t물결 이 다\n물\tO\n결\tO\n \tO\n이\tO\n \tO\n다\tO\n",
    "csv    ": "id,document,label\n" + '1,"물결이, 인다",1\n' * 3,
    "csv     ": ',"text",label\n' + "0,물결이 인다,1\n" * 30 + '1,"물결이\n인다",0\n',
    "xml": '<?xml version="1.0"?>\n<rss version="2.0"><channel><title>소식</title></channel></rss>\n',
    "xml ": '<!DOCTYPE tei.2 SYSTEM "tei2.dtd">\n<tei.2>\n<text><p>물결</p></text></tei.2>\n',
    "xml  ": '<tt xmlns="http://www.w3.org/ns/ttml"><body><p begin="0s">네</p></body></tt>\n',
    "wikiextractor": '머리말\n<doc url="u" id="7" title="바다">\n바다\n\n바다는 짜다.\n</doc>\n',
    "wikiextractor ": "<doc id='7' title='바다'>\n바다는 짜다.\n</doc>\n",
    "json": '{\n  "data": [\n    "가"\n  ]\n}\n',
    "json ": '[{"namespace": "0", "title": "등대", "text": "가"}]',
    "jsonl": '{"id": "7", "url": "u", "title": "바다", "text": "바다는 짜다."}\n{"id": "8", "text": "섬"}\n',
    "wikipedia ": '<?xml version="1.0"?>\n<mediawiki>\n<page>\n',
    "wikipedia": '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">\n<page>\n',
    "html": "<!DOCTYPE html>\n<html><body><pre>\n<sync start=1>\n</pre>",
}

PROSE = [
    "행사 안내\n10:30 개회식: 시장 인사\n11:00 강연: 김 교수\n12:00 점심: 식당\n13:00 공연: 밴드\n14:00 폐회: 인사\n",
    "2023년 5월 1일 오후 3:10, 그가 말했다 : 가자\n그날은 비가 왔다.\n긴 하루였다.\n",
    "[1] 그는 갔다.\n[2] 그녀는 왔다.\n\n“보아라: 바다다” 하고 그가 말했다.\n",
    "From 1990 to 2000\n그는 서울에 살았다.\n",
    "1\n제1장\n2\n제2장\n",
    "사회자: 시작하겠습니다.\n의원: 네.\n사회자: 다음 안건입니다.\n의원: 네.\n",
    "버스 시간\n서울역 9:10\n시청 9:12\n서울역 9:30\n시청 9:32\n",
    "상영 시간표\n섬 10:00\n바다 10:10\n섬 13:00\n바다 13:10\n섬 15:00\n바다 15:10\n"
    "문의는 매표소에 하십시오.\n예매는 전날까지 됩니다.\n",
    "\t첫째 문단이다.\n\t둘째 문단이다.\n\t셋째 문단이다.\n\t넷째 문단이다.\n",
    "참고: 아래를 보라\n주의: 길다\n결론: 짧다\n",
    "Note: this is text\nBut: no mail\nEnd: here\n",
    "# 바다\n\n물결이 인다.\n\n## 섬\n\n섬은 작다.\n\n파도,바람\n",
    "사과, 배, 감이 있다.\n사과, 배, 감을 샀다.\n사과, 배, 감을 먹었다.\n사과, 배, 감은 달다.\n",
    "봄,여름\n꽃이 피고, 새가 운다.\n더위가 온다.\n비가 오고, 바람이 분다.\n눈이 온다.\n",
    "{가정} 위에서 말한 대로\n[그림 1] 바다\n",
]


def read(tmp_path: Path, name: str, content: str, file: str = "a.txt") -> list:
    (tmp_path / file).write_bytes(content.encode())
    return list(Reader.choose({"name": name, "path": file}).read(tmp_path))


def formats() -> dict[str, tuple[str, str]]:
    chats = {name: ("chat", content) for name, (content, _) in CHATS.items()}
    subtitles = {name: ("subtitles", content) for name, (content, _) in SUBTITLES.items()}
    others = {name: (name.strip(), content) for name, content in OTHERS.items()}
    return {"wikiextractor": ("wikiextractor", ARTICLES), **chats, **subtitles, **others}


@pytest.mark.parametrize(("name", "content"), formats().values(), ids=list(formats()))
def test_a_format_is_recognized_and_no_prose(tmp_path: Path, name: str, content: str) -> None:
    form = text_format(content)
    assert form and form.name == name
    with pytest.raises(UnreadableInput, match=r"(is|are) not text") as refused:
        read(tmp_path, "text", content)
    assert refused.value.reason == name


def test_articles_further_down_a_joined_file_are_no_prose(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="use the reader wikiextractor"):
        read(tmp_path, "text", "동해의 물결이 인다.\n\n" * 2000 + ARTICLES)


@pytest.mark.parametrize("content", PROSE)
def test_prose_is_no_format(tmp_path: Path, content: str) -> None:
    assert text_format(content) is None
    assert "\n".join(document.text for document in read(tmp_path, "text", content)).split() == content.split()


@pytest.mark.parametrize(("suffix", "content", "texts"), [(name, *case) for name, case in SUBTITLES.items()])
@pytest.mark.parametrize("encode", [str.encode, lambda text: text.encode("cp949"), lambda text: text.encode("utf-16")])
def test_subtitles_are_read_without_numbers_times_and_markup(
    tmp_path: Path, suffix: str, content: str, texts: dict[str, str], encode: Callable[[str], bytes]
) -> None:
    (tmp_path / f"a.{suffix.strip()}").write_bytes(encode(content))
    documents = Reader.choose({"name": "subtitles", "path": f"a.{suffix.strip()}"}).read(tmp_path)
    assert {document.id.partition("#")[2]: document.text for document in documents} == texts


@pytest.mark.parametrize(("content", "texts"), CHATS.values(), ids=list(CHATS))
def test_a_chat_is_read_without_names_and_times(tmp_path: Path, content: str, texts: list[str]) -> None:
    assert [document.text.strip() for document in read(tmp_path, "chat", content)] == [text.strip() for text in texts]


def test_the_table_of_a_chat_is_read_without_names_and_times(tmp_path: Path) -> None:
    rows = [
        '2023-05-01 15:10:00,"이모","비 온대요\n우산"',
        '2023-05-01 15:11:00,"삼촌","사진"',
        '2023-05-02 08:00:00,"삼촌","삼촌님이 고모님을 초대했습니다."',
        '2023-05-02 08:30:00,"이모","삼촌님이 고모님을 초대했습니다."',
        '2023-05-02 09:00:00,"삼촌","네"',
    ]
    documents = read(tmp_path, "chat", "\n".join(["\ufeffDate,User,Message", *rows]), "a.csv")
    assert [document.text for document in documents] == ["비 온대요\n우산", "삼촌님이 고모님을 초대했습니다.\n네"]


def test_articles_are_read_without_doc_lines_and_pages_of_a_title_alone(tmp_path: Path) -> None:
    documents = read(tmp_path, "wikiextractor", ARTICLES, "wiki_00")
    assert [document.id for document in documents] == ["wiki_00#7", "wiki_00#9"]
    assert [document.text for document in documents] == ["바다\n바다는 짜다.\n물결이 인다.", "&lt;섬&gt;\n섬은 작다."]


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("wikiextractor", "바다는 짜다.\n", "no <doc> line"),
        ("wikiextractor", ARTICLES.removesuffix("</doc>\n"), "no </doc>"),
        ("subtitles", "바다는 짜다.\n", "neither SRT"),
        ("chat", "바다는 짜다.\n", "no chat log"),
        ("chat", '{"messages": [{"author": "이모", "content": "비 온대요"}]}', "use the reader jsonl"),
        ("chat", '{\n "messages": [{"text": "비 온대요"}]\n}', "use the reader json"),
        ("json", OTHERS["jsonl"], "use the reader jsonl"),
        ("json", ARTICLES, "use the reader wikiextractor"),
        ("html", ARTICLES, "use the reader wikiextractor"),
        ("html", SUBTITLES["smi"][0], "use the reader subtitles"),
        ("html", "WARC/1.0\nWARC-Type: response\n\n<html><body>글</body></html>\n", "a web archive"),
        ("text", "WARC/1.1\r\nWARC-Type: warcinfo\r\n\r\n", "a web archive"),
    ],
)
def test_a_file_of_another_form_is_refused_with_the_way_out(tmp_path: Path, name: str, content: str, word: str) -> None:
    (tmp_path / "a").write_text(content, encoding="utf-8")
    options = {"name": name, "path": "a"} | ({"text": "text"} if name == "json" else {})
    with pytest.raises(UnreadableInput, match=word):
        list(Reader.choose(options).read(tmp_path))


@pytest.mark.parametrize("name", ["wikiextractor", "subtitles"])
def test_what_is_too_long_is_dropped_and_not_cut(tmp_path: Path, name: str) -> None:
    content = ARTICLES if name == "wikiextractor" else SUBTITLES["srt"][0]
    (tmp_path / "a").write_text(content, encoding="utf-8")
    documents = list(Reader.choose({"name": name, "path": "a", "max_document_bytes": 10}).read(tmp_path))
    assert documents and all(document.dropped == "too_long" and not document.text for document in documents)


def test_check_says_what_each_source_is_read_as(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("바다는 짜다.\n물결이 인다.\n", encoding="utf-8")
    (tmp_path / "b.json").write_text(
        '[{"title": "등대", "text": "[[바다]]의 \'\'\'등대\'\'\'\\n== 개요 ==\\n글"}]', encoding="utf-8"
    )
    sources = [{"name": "text", "path": "a.txt"}, {"name": "json", "path": "b.json", "text": "*.text"}]
    problems, taken_for = check_sources(CorpusOptions.model_validate({"sources": sources}), tmp_path)
    assert not problems and taken_for == [
        "a.txt is read as text with one document up to each blank line (documents_by), for example: 바다는 짜다.",
        "b.json is read as json, for example: [[바다]]의 '''등대'''; "
        "1 of 1 documents have markup of a wiki, which stays in the texts",
    ]


@pytest.mark.parametrize(
    ("name", "options", "left_out"),
    [
        ("jsonl", {}, "not read: title"), ("csv", {"id": "id"}, "not read: title"),
        ("csv", {"text": ["title", "text"]}, "not read: id"), ("parquet", {"group_by": "title"}, "not read: id"),
        ("csv", {"text": ["title", "text"], "id": "id"}, ""),
        ("json", {"text": "text"}, ""),  # which does not tell
    ],
)  # fmt: skip
def test_check_names_columns_that_are_not_read(tmp_path: Path, name: str, options: dict, left_out: str) -> None:
    table = pa.Table.from_pylist([{"id": "1", "title": "등대", "text": "바다는 짜다."}])
    if name == "parquet":
        pq.write_table(table, tmp_path / "a.parquet")
    elif name == "csv":
        pa.csv.write_csv(table, tmp_path / "a.csv")
    else:
        (tmp_path / f"a.{name}").write_text(json.dumps(table.to_pylist()[0]), encoding="utf-8")
    source = {"name": name, "path": f"a.{name}", **options}
    (taken_for,) = check_sources(CorpusOptions.model_validate({"sources": [source]}), tmp_path)[1]
    assert taken_for.partition("; ")[2] == left_out


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["**/*.txt"], "**/*.txt matches 2 of 5 files there, and no source reads d.hwp, e.csv, c.TXT"),
        (["in/*.txt"], "in/*.txt matches 1 of 2 files there, and no source reads c.TXT"),
        (["**/*.txt", "**/*.TXT"], "**/*.txt, **/*.TXT match 3 of 5 files there, and no source reads d.hwp, e.csv"),
        (["**/*.txt", "**/*.TXT", "*.csv", "d*"], None), (["a.txt", "in/b*"], None), (["**"], None),
    ],
)  # fmt: skip
def test_check_names_files_beside_those_of_a_source(tmp_path: Path, paths: list[str], said: str | None) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "in/b.txt", "in/c.TXT", "d.hwp", "e.csv", ".hidden"):
        (tmp_path / name).write_text("바다는 짜다.\n", encoding="utf-8")
    options = CorpusOptions.model_validate({"sources": [{"name": "text", "path": paths}]})
    assert left_out(options, tmp_path) == ([said] if said else [])


@pytest.mark.parametrize(
    ("head", "is_page"),
    [
        ("<!DOCTYPE html><title>글</title>", True), ("<!-- 글 -->\n<BODY>", True), ("글에 <b>태그</b>가 하나", False),
        ("<header>머리", False),
    ],
)  # fmt: skip
def test_a_page_begins_as_one(head: str, is_page: bool) -> None:
    assert is_html(head) == is_page


def test_days_without_a_message_are_none() -> None:
    blocks = [("1일", ["사진"]), ("2일", ["안녕", "둘째 줄"]), ("2일", []), ("3일", ["사진"])]
    assert list(days(blocks)) == [["안녕\n둘째 줄"]]
    assert list(days([])) == []
