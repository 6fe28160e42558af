"""The units in which the answer to a question about a measure is given: an area in km², damages in won."""

_CURRENCIES = "원 달러 엔 유로 위안 파운드 프랑 마르크 루블 루피 페소"
_UNITS = {
    "인구 인원 정원 사망자 사상자 부상자 희생자 관객 관중 병력": "명 만 억 인",
    "높이 길이 거리 깊이 두께 지름 반지름 너비 폭 고도 둘레 키 신장": "m ㎜ ㎝ ㎞ 미터 리 피트 마일 광년 AU",
    "면적 넓이 평수": "m² m2 ㎡ ㎢ 평 헥타르 ha 미터 제곱킬로미터 에이커",
    "무게 질량 중량 몸무게 체중": "g ㎏ ㎎ t 그램 톤 근 파운드",
    "속도 속력 시속 풍속": "km/h m/s 킬로미터 km m ㎞ 노트 마하",
    "온도 기온 각도 수온 체온 경사": "도 ℃ °C °",
    "기간 동안 주기 수명 형기 시간 임기 나이": "년 개월 달 주 주일 일 시간 분 초 세 살",
    "율 률 비율 확률 농도 비중": "% ％ 퍼센트 프로 할 푼",
    "금 금액 액 값 가격 비용 비 료 요금 연봉 월급 수입 매출 예산 재산 빚 이익 채무 손해 소득": (
        f"{_CURRENCIES} 냥 만 억 조 $ ₩"
    ),
}
CURRENCIES = tuple(_CURRENCIES.split())
UNITS = {noun: tuple(units.split()) for nouns, units in _UNITS.items() for noun in nouns.split()}
"""{what the noun of a measure ends with: what its values end with}"""
MONEY = UNITS["금액"]


def units_of(noun: str) -> tuple[str, ...]:
    """The units of what a noun measures, such as those of money for 손해배상금; none for a noun of another kind."""
    # the longest one first: 금액, not 액
    return next((UNITS[noun[start:]] for start in range(len(noun)) if noun[start:] in UNITS), ())
