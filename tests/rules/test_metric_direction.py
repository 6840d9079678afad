"""The better direction of a metric, by its name; the rules and the advisor agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.metric_cost import improvements
from rules import metric_direction
from rules.catalogue.no_progress import chosen_metric
from rules.metric_direction import is_quality, is_share, is_validation, less_is_better

LOWER = sorted(metric_direction.LOSSES | metric_direction.LOWER)
HIGHER = sorted(metric_direction.HIGHER | metric_direction.WEAK)
OTHERS = sorted(metric_direction.OTHER_QUANTITIES)
TERMS = st.sampled_from([*LOWER, *HIGHER, *OTHERS, "learning rate", "epoch", "glossary"])
PREFIX = st.sampled_from(["", "val", "eval", "test", "train", "valid", "Train", "coco", "head"])
SUFFIX = st.sampled_from(["", "epoch", "step", "50", "@50", "1", "macro", "avg", "B"])
SEPARATOR = st.sampled_from(["_", "/", "-", ".", " ", ":", "__", " / "])
CASE = st.sampled_from([str.lower, str.upper, str.title])


@pytest.mark.parametrize(
    "name",
    ["loss", "val/loss", "eval_loss", "test-loss", "train/box_loss", "valid_loss_epoch",
     "dice_loss", "loss_cls", "reward_loss", "top5_error", "top-1 err", "token_error_rate",
     "word_error_rate", "WER", "cer", "nll", "negative_log_likelihood", "perplexity", "val_ppl",
     "mae", "mse", "val_rmse", "FID", "fid_score", "lpips", "cross_entropy", "loss2", "bpb",
     "false_positive_rate", "brier_score", "logloss", "log_loss", "eval.bits_per_byte", "val/kl",
     "kl_divergence", "test.MAPE", "hamming_loss", "regret", "val/per", "perplexity@512",
     "loss_per_token"],
)  # fmt: skip
def test_less_is_better(name: str) -> None:
    assert less_is_better(name) is True


@pytest.mark.parametrize(
    "name",
    ["acc", "val/top1_acc", "top5", "Top-1", "eval_accuracy", "eval_mnli/acc", "auroc", "roc_auc",
     "AUC", "f1", "eval_f1_macro", "F1-score", "f1score", "r2", "R2_score", "iou", "mIoU",
     "val_iou", "mAP", "metrics/mAP50(B)", "mAP50-95", "recall@50", "precision", "bleu", "bleu4",
     "sacrebleu", "rougeL", "rouge1", "reward", "episode_return", "eval/returns", "elo", "psnr",
     "ssim", "ndcg@10", "log_likelihood", "success_rate", "win rate", "score",
     "eval_matthews_accuracy", "val/auroc", "matthews_corrcoef", "test.mIoU@0.5", "pass@8",
     "pass_at_1", "hits@10", "eval_em", "exact_match", "fbeta_score", "spice", "rocauc",
     "win_rate", "hamming_score", "reward_per_episode", "accuracy/per_class"],
)  # fmt: skip
def test_more_is_better(name: str) -> None:
    assert less_is_better(name) is False


@pytest.mark.parametrize(
    "name",
    ["", "lr", "learning_rate", "epoch", "glossary", "macro", "loss_score", "accuracy_mse",
     "loss_scale", "grad_norm", "acc_steps", "reward_std", "return_code", "neg_log_loss",
     "neg_mean_squared_error", "score_threshold", "loss_weight", "f", "42", "损失"],
)  # fmt: skip
def test_a_name_that_says_nothing_or_both_stays_unknown(name: str) -> None:
    assert less_is_better(name) is None
    assert less_is_better(name, with_speed=True) is None


@pytest.mark.parametrize(
    ("name", "is_less"),
    [("throughput", False), ("eval_samples_per_second", False), ("train_steps_per_second", False),
     ("tokens_per_sec", False), ("fps", False), ("latency", True)],
)  # fmt: skip
def test_speed_has_a_direction_and_says_nothing_of_the_model(name: str, is_less: bool) -> None:
    assert less_is_better(name, with_speed=True) is is_less
    assert less_is_better(name) is None


@pytest.mark.parametrize(
    "name",
    ["lr", "learning_rate", "train/epoch", "global_step", "gpu_memory", "grad_norm", "step_time",
     "num_tokens", "tokens_seen", "train_samples_per_second", "reward_std", "loss_scale",
     "acc_steps", "total_flos", "seed", "score_threshold"],
)  # fmt: skip
def test_progress_speed_and_settings_are_no_quality(name: str) -> None:
    assert is_quality(name) is False


@pytest.mark.parametrize(
    "name", ["val_loss_epoch", "gamma", "my_metric", "neg_log_loss", "accuracy_mse", "val/auroc"]
)
def test_what_may_be_quality_counts_as_such(name: str) -> None:
    assert is_quality(name) is True


@pytest.mark.parametrize(
    ("name", "is_it"),
    [("val/auroc", True), ("top1", True), ("bleu", True), ("loss", False), ("psnr", False),
     ("reward", False), ("elo", False), ("mape", False), ("accumulated", False)],
)  # fmt: skip
def test_it_knows_which_metrics_are_shares(name: str, is_it: bool) -> None:
    assert is_share(name) is is_it


@given(term=TERMS, prefix=PREFIX, suffix=SUFFIX, separator=SEPARATOR, case=CASE)
def test_prefix_suffix_case_and_separators_change_nothing(
    term: str, prefix: str, suffix: str, separator: str, case: object
) -> None:
    parts = [part for part in (prefix, *term.split(), suffix) if part]
    name = str.join(separator, parts)
    assert callable(case)
    assert less_is_better(case(name)) is less_is_better(term)


@given(st.one_of(st.text(), st.lists(st.one_of(TERMS, PREFIX, SUFFIX), max_size=4).map("_".join)))
def test_the_rules_and_the_advisor_agree_on_every_name(name: str) -> None:
    rising = improvements(name, [(0.0, 1.0), (1.0, 2.0)])
    direction = less_is_better(name)
    assert bool(rising) is (direction is not None) is (chosen_metric([name]) is not None)
    assert len(rising) == {None: 0, True: 1, False: 2}[direction]


@pytest.mark.parametrize(
    ("name", "is_it"),
    [("val_loss", True), ("eval/acc", True), ("Test-Loss", True), ("valid2_loss", True),
     ("loss", False), ("train_loss", False), ("value_loss", False), ("evaluator", False)],
)  # fmt: skip
def test_it_knows_validation_metrics(name: str, is_it: bool) -> None:
    assert is_validation(name) is is_it
