"""Which language a text is written in."""

from anydepth.server.languages import LanguageDetector, language_name


def test_only_given_languages_are_found_and_all_are_ranked() -> None:
    ranked = LanguageDetector(["de", "en", "fr"]).ranked("Il fait beau aujourd'hui, n'est-ce pas?")
    assert ranked[0].language == "fr"
    assert sorted(found.language for found in ranked) == ["de", "en", "fr"]
    assert abs(sum(found.confidence for found in ranked) - 100) < 0.1
    among = LanguageDetector(["de", "en"]).ranked("Il fait beau aujourd'hui, n'est-ce pas?")
    assert {found.language for found in among} == {"de", "en"}


def test_languages_that_the_library_does_not_know_are_ranked_last() -> None:
    ranked = LanguageDetector(["xx", "de", "yy"]).ranked("Das ist gut.")
    assert [(found.language, found.confidence) for found in ranked] == [("de", 100.0), ("xx", 0.0), ("yy", 0.0)]
    assert len(LanguageDetector(["xx", "yy"]).ranked("")) == 2


def test_a_language_without_a_name_is_called_by_its_code() -> None:
    assert (language_name("de"), language_name("xx")) == ("German", "xx")
