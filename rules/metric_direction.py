"""The better direction of a user's metric, by its name: lower for a loss, higher for accuracy.

A name that implies neither or both stays unknown: nothing is guessed.
"""

from __future__ import annotations

import re


def _terms_in(text: str) -> frozenset[str]:
    return frozenset(" ".join(term.split()) for term in text.split(","))


LOSSES = _terms_in("loss, losses, error, errors, err")
"""Lower is better, whatever word comes before: `dice_loss`, `top5_error`."""
LOWER = _terms_in("""
    perplexity, ppl, nll, negative log likelihood, cross entropy, bce, xent, bpb, bpc, bpd,
    mae, mse, rmse, nrmse, mape, smape, msle, rmsle, epe, ade, fde, brier, ece, regret,
    wer, cer, eer, fpr, false positive rate, fnr, false negative rate, fid, kid, lpips
""")
WEAK = _terms_in("score, top")
"""Higher is better, unless a metric is named as well: `fid_score`, `top5_perplexity`."""
HIGHER = _terms_in("""
    acc, accuracy, auc, auroc, auprc, aupr, ap, map, iou, miou, dice, jaccard, precision, recall,
    specificity, sensitivity, tpr, true positive rate, tnr, f1, f2, mcc, kappa, exact match,
    r2, r squared, explained variance, pearson, pearsonr, spearman, spearmanr, log likelihood,
    bleu, sacrebleu, chrf, rouge, rougel, rougelsum, meteor, cider, bertscore, ndcg, mrr,
    psnr, ssim, reward, rewards, return, returns, elo, hit rate, success rate, win rate
""")
SLOWNESS = _terms_in("latency")
SPEED = _terms_in("throughput, fps, per sec, per second, steps per second")
OTHER_QUANTITIES = _terms_in("""
    coef, count, decay, delta, diff, duration, grad, gradient, inverse, lambda, loss scale, lr,
    neg, negative, norm, num, patience, return code, reward scale, seconds, size, std, steps,
    target, temperature, threshold, time, var, variance, weight, weights
""")
"""Names with one of these mean something else: `acc_steps`, `reward_std`, `neg_log_loss`."""
VALIDATION = frozenset({"val", "valid", "validation", "eval", "test", "dev"})

_WORD = re.compile(r"(?<![a-z])(?:f[12]|r2)(?![a-z0-9])|[a-z]+")
_TERMS = LOSSES | LOWER | WEAK | HIGHER | SLOWNESS | SPEED | OTHER_QUANTITIES
_TERM = re.compile(rf"\b(?:{'|'.join(sorted(_TERMS, key=len, reverse=True))})\b")


def less_is_better(name: str, *, with_speed: bool = False) -> bool | None:
    """By the words of the name, in any case and with any separators; None: unknown.

    Args:
        with_speed: throughput and latency have a direction too, but measure the speed of training,
            not the model's quality.
    """
    terms = _terms(name)
    if not terms or not OTHER_QUANTITIES.isdisjoint(terms):
        return None
    if not with_speed and not (SPEED | SLOWNESS).isdisjoint(terms):
        return None
    if not (WEAK | LOSSES).issuperset(terms):
        terms = [term for term in terms if term not in WEAK]
    if terms[-1] in LOSSES:
        return True
    directions = {term in LOSSES | LOWER | SLOWNESS for term in terms}
    return directions.pop() if len(directions) == 1 else None


def is_validation(name: str) -> bool:
    """The metric was measured on data that the model isn't trained on."""
    return not VALIDATION.isdisjoint(_WORD.findall(name.lower()))


def _terms(name: str) -> list[str]:
    """The known words and phrases of the name, in order."""
    return _TERM.findall(" ".join(_WORD.findall(name.lower())))
