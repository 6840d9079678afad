"""Categories: what the list of rules is grouped by."""

from __future__ import annotations

from rules.registry import all_rules, rules_by_category


def test_every_rule_is_in_one_category_and_an_id_means_one_category() -> None:
    grouped = rules_by_category()
    listed = [rule.id for rules in grouped.values() for rule in rules]
    assert sorted(listed) == list(all_rules())
    assert len({category.id for category in grouped}) == len(grouped)


def test_wasted_time_is_listed_before_the_overviews() -> None:
    titles = [category.title for category in rules_by_category()]
    assert titles.index("Wasted time") < titles.index("Overviews")
