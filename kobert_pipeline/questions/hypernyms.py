"""Common nouns that say what a name is, and so which question word asks for it: 누구 (who) or 어디 (where)."""

from typing import Literal

_PERSONS = """
감독 가수 배우 선수 대통령 왕 국왕 여왕 황제 장군 교수 작가 소설가 시인 화가 총리 의원 장관 박사 목사 신부 교황
대사 사장 회장 대표 아들 딸 아버지 어머니 부인 아내 남편 형 누나 동생 친구 제자 스승 학자 철학자 과학자 물리학자
수학자 화학자 기자 변호사 판사 검사 대위 소령 중령 대령 소장 중장 대장 제독 공작 백작 남작 후작 왕비 왕자 공주 황후
태자 정치인 정치가 작곡가 지휘자 피아니스트 아나운서 개그맨 코미디언 모델 프로듀서 투수 타자 포수 골키퍼 공격수
수비수 만화가 건축가 사진작가 의사 간호사 경찰 군인 탐험가 발명가 사업가 기업가 독립운동가 혁명가 승려 스님 대군
후보 후보자 교사 선생 조카 손자 사위 며느리 주교 추기경 영주 총독 도지사 지사 위원장 총장 대왕 사람 인물 문신 무신 무장
관료 군주 왕족 후궁 다이묘 외교관 법조인 기업인 언론인 방송인 음악가 예술가 무용가 성우 래퍼 희극인 교육자 미드필더
기타리스트 드러머 게이머 프로게이머 종교인 사회운동가 영화배우
"""
_PLACES = """
도시 국가 나라 지역 지방 섬 산 강 마을 공원 대학 대학교 학교 고등학교 중학교 초등학교 사관학교 학원 역 공항 경기장
궁전 사원 성당 교회 박물관 미술관 도서관 항구 호수 해안 반도 대륙 병원 극장 호텔 수도 왕국 제국 공화국 평야 산맥
고개 다리 광장 묘지 요새 성 만 해협 법원 법정 경찰서 교도소 감옥 무덤 능 곳 시 군 구
읍 면 주 주도 하천 사찰 향교 철도역 전철역 터미널 행성 선거구 자치구
"""
_NO_HYPERNYMS = """
당시 이후 이전 현재 최근 최초 오늘날 초기 중기 후기 말기 당초 처음 마지막 각각 전체 일부 대부분 모두 사실 결국 이번
다음 지난해 매년 올해 북부 남부 동부 서부 중부 동쪽 서쪽 남쪽 북쪽 이상 이하 정도 출신 소속 시절 때 전 후 중 간 내
외 등 동안 해 말 일종 이름 용어 단어 총칭 명칭 통칭 예 뜻 날 수 사람들 것 하나 중 본명 별명
"""

A_PERSON, A_PLACE = "사람", "곳"
"""Nouns for people and places where no better noun is known."""
PERSONS, PLACES = frozenset(_PERSONS.split()), frozenset(_PLACES.split())
NO_HYPERNYMS = frozenset(_NO_HYPERNYMS.split())
"""Nouns before or in a name that say nothing about what it is."""


def entity_type(noun: str) -> Literal["person", "place", ""]:
    """What a name with this noun is the name of; "" for anything but people and places."""
    if noun in PERSONS or noun.endswith("학자"):
        return "person"
    return "place" if noun in PLACES else ""
