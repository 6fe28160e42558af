"use strict";
// What the page says in both languages, and its examples.

const WORDS = {
  en: {
    language: "Language", tabs: "What the models can do", loading: "The models are being loaded …",
    key: "API key", keyHint: "The server asks for a key. It is kept in this page's memory only, until you close or reload it.",
    useKey: "Use this key", wrongKey: "The key is wrong.",
    models: "Models of this server", model: "Model", answers: "Answers", scores: "Scores",
    examples: "Examples", submit: "Run", hint: "Ctrl+Enter also runs it.", result: "Result",
    classify: "Labels", answer: "Questions", tag: "Entities", similar: "Similar texts", "fill-mask": "Fill the mask",
    attention: "Attention", tokenize: "Tokens",
    text: "Text", textPair: "Second text", question: "Question", context: "Text to search for the answer", query: "Compare this text",
    texts: "with these, one per line", masked: "Text with {mask}", insertMask: "Insert {mask}", by: "Rank by",
    vectors: "vectors", bm25: "words in common (BM25)", hybrid: "both", layer: "Layer", head: "Head", allHeads: "mean of all",
    labelled: "Label: {label} ({share})", severalLabels: "Labels: {labels}", noLabel: "The text has none of the labels.",
    score: "Score: {score}", answered: "Answer: {answer}", sure: " (probability {share})",
    unanswered: "The model finds no answer in the text.", entities: "Entities found: {count}", ranked: "The most similar: {text}",
    noneSimilar: "No text has a word of it, or a part of one.",
    filled: "[{number}] The likeliest: {token} ({share})", tokens: "Tokens: {count}, characters: {characters}",
    token: "token", id: "id", place: "characters", reads: "{word} reads from", largest: "Largest weights",
    chooseWord: "Click a word, or choose it here", everyWord: "all words", truncated: "The text is longer; only its beginning is shown.",
    caveat: "Attention shows where a layer reads from. It is no explanation of what the model predicts.",
    attentionPicture: "Lines from the words that read, left, to those that are read, right",
    empty: "Write a text first.", noMask: "Write {mask} where a word is missing.",
    unreachable: "The server cannot be reached. It may have stopped, or the network is down.",
    busy: "The server is busy. Try again in {seconds} s.", slow: "The server did not answer in time. Try a shorter text, or try later.",
    large: "The text is too long for this server.", failed: "The server failed; its log says where.", refused: "The server refused this: {message}",
    unready: "The server is loading its models or shutting down. Try again in a moment.",
  },
  ko: {
    language: "언어", tabs: "모델이 할 수 있는 일", loading: "모델을 불러오는 중입니다 …",
    key: "API 키", keyHint: "이 서버에는 키가 필요합니다. 키는 이 페이지의 메모리에만 있으며, 닫거나 새로 고치면 사라집니다.",
    useKey: "이 키 사용", wrongKey: "키가 틀립니다.",
    models: "이 서버의 모델", model: "모델", answers: "할 수 있는 일", scores: "점수",
    examples: "예시", submit: "실행", hint: "Ctrl+Enter로도 실행됩니다.", result: "결과",
    classify: "분류", answer: "질의응답", tag: "개체명", similar: "비슷한 문장", "fill-mask": "빈칸 채우기",
    attention: "어텐션", tokenize: "토큰화",
    text: "텍스트", textPair: "두 번째 텍스트", question: "질문", context: "답을 찾을 텍스트", query: "기준 문장",
    texts: "비교할 문장 (한 줄에 하나)", masked: "{mask}가 있는 텍스트", insertMask: "{mask} 넣기", by: "비교 방법",
    vectors: "문장 벡터", bm25: "같은 단어 (BM25)", hybrid: "둘 다", layer: "층", head: "헤드", allHeads: "전체 평균",
    labelled: "라벨: {label} ({share})", severalLabels: "라벨: {labels}", noLabel: "해당하는 라벨이 없습니다.",
    score: "점수: {score}", answered: "답: {answer}", sure: " (확률 {share})",
    unanswered: "텍스트에서 답을 찾지 못했습니다.", entities: "찾은 개체명: {count}개", ranked: "가장 비슷한 문장: {text}",
    noneSimilar: "단어나 단어의 일부라도 같은 문장이 없습니다.",
    filled: "[{number}] 가장 그럴듯한 토큰: {token} ({share})", tokens: "토큰 {count}개, 글자 {characters}개",
    token: "토큰", id: "id", place: "글자 위치", reads: "‘{word}’이(가) 주목하는 곳", largest: "가장 큰 값",
    chooseWord: "단어를 누르거나 여기에서 고르세요", everyWord: "모든 단어", truncated: "텍스트가 길어 앞부분만 보여 줍니다.",
    caveat: "어텐션은 그 층이 어느 단어에 주목하는지 보여 줄 뿐, 모델의 예측을 설명하지 않습니다.",
    attentionPicture: "주목하는 단어(왼쪽)에서 주목받는 단어(오른쪽)로 이은 선",
    empty: "먼저 텍스트를 입력하세요.", noMask: "빠진 단어 자리에 {mask}를 넣으세요.",
    unreachable: "서버에 연결할 수 없습니다. 서버가 멈췄거나 네트워크가 끊겼습니다.",
    busy: "서버가 바쁩니다. {seconds}초 뒤에 다시 시도하세요.", slow: "서버가 제시간에 답하지 못했습니다. 텍스트를 줄이거나 나중에 다시 시도하세요.",
    large: "이 서버에는 너무 긴 텍스트입니다.", failed: "서버에 오류가 났습니다. 원인은 서버 로그에 있습니다.", refused: "서버가 요청을 거부했습니다: {message}",
    unready: "서버가 모델을 불러오는 중이거나 종료하는 중입니다. 잠시 뒤에 다시 시도하세요.",
  },
};

const HANGUL = "한글은 조선의 세종대왕이 1443년에 만든 문자이다. 처음 이름은 훈민정음이었고, 1446년에 반포되었다.";
const SEOUL = "대한민국의 수도는 서울이다. 한강이 도시를 가로질러 흐르며, 1988년에는 하계 올림픽이 열렸다.";
/** {tab: [{field: text}]} */
const EXAMPLES = {
  classify: [
    { text: "배우들 연기가 정말 좋았고 또 보고 싶다" },
    { text: "두 시간이 아까웠다. 졸다가 나왔다" },
    { text: "음악은 좋은데 이야기가 너무 지루하다" },
  ],
  pairs: [
    { text: "비가 많이 온다", textPair: "날씨가 궂다" },
    { text: "내일 몇 시에 만날까?", textPair: "밥을 먹었다" },
  ],
  answer: [
    { question: "한글은 언제 만들어졌는가?", context: HANGUL },
    { question: "대한민국의 수도는 어디인가?", context: SEOUL },
  ],
  tag: [
    { text: "지호는 어제 강릉에 갔다" },
    { text: "서연은 부산에서 태어나 삼성전자에서 십 년 동안 일했다" },
    { text: "비가 와서 하루 종일 집에 있었다" },
  ],
  similar: [
    { query: "연기가 좋다", texts: "음악이 좋다\n배우들의 연기가 훌륭하다\n비가 온다\n배우가 연기를 잘한다" },
    { query: "오늘 날씨가 어때?", texts: "비가 온다\n점심에 국수를 먹었다\n날씨가 흐리고 춥다" },
  ],
  "fill-mask": [{ text: "이 영화 [MASK] 재밌다" }, { text: "서울은 대한민국의 [MASK]이다." }],
  attention: [{ text: "배우들 연기가 정말 좋았다" }, { text: "한글은 세종대왕이 만든 문자이다" }],
  tokenize: [{ text: "아버지가 방에 들어가셨다" }, { text: "그 영화 재밌었다ㅋㅋ" }],
};
