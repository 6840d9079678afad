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
    perplexity, ppl, nll, negative log likelihood, cross entropy, bce, xent, bpb, bpc, bpd, mae,
    mse, rmse, nrmse, mape, smape, msle, rmsle, epe, ade, fde, brier, ece, regret, wer, cer,
    ter, eer, fpr, false positive rate, fnr, false negative rate, fid, kid, fvd, lpips, logloss,
    crossentropy, categorical crossentropy, bits per byte, bits per character, bits per
    dimension, medae, crps, deviance, divergence, kl, kld, kl divergence, hamming, hamming
    distance, edit distance, misclassification rate
""")
WEAK = _terms_in("score, top")
"""Higher is better, unless a metric is named as well: `fid_score`, `top5_perplexity`."""
HIGHER = _terms_in("""
    acc, accuracy, auc, auroc, auprc, aupr, ap, map, iou, miou, dice, jaccard, precision,
    recall, specificity, sensitivity, tpr, true positive rate, tnr, f1, f2, mcc, kappa, exact
    match, r2, r squared, explained variance, pearson, pearsonr, spearman, spearmanr, log
    likelihood, bleu, sacrebleu, chrf, rouge, rougel, rougelsum, meteor, cider, bertscore, ndcg,
    mrr, psnr, ssim, vmaf, reward, rewards, return, returns, elo, hit at, hits at, hit rate,
    hitrate, success rate, win rate, winrate, rocauc, prauc, aucpr, mauc, matthews, fbeta, em,
    spice, gleu, comet, bleurt, pck, pq, hamming score, concordance, silhouette, nmi, ari, pass
    at, pass rate
""")
SHARES = _terms_in("""
    acc, accuracy, auc, auroc, auprc, aupr, rocauc, prauc, aucpr, mauc, ap, map, iou, miou,
    dice, jaccard, precision, recall, specificity, sensitivity, tpr, true positive rate, tnr,
    f1, f2, fbeta, mcc, matthews, kappa, exact match, em, r2, bleu, sacrebleu, rouge, rougel,
    rougelsum, meteor, ndcg, mrr, hit at, hits at, hit rate, hitrate, success rate, win rate,
    winrate, pass at, pass rate, pck, pq, top
""")
"""The metrics that are at most 1, or at most 100 if written in percent: one point matters near the
end of the scale."""
SLOWNESS = _terms_in("latency")
SPEED = _terms_in("throughput, fps, per sec, per second, steps per second")
OTHER_QUANTITIES = _terms_in("""
    coef, count, decay, delta, diff, duration, grad, gradient, inverse, lambda, loss scale, lr,
    neg, negative, norm, num, patience, return code, reward scale, seconds, size, std, steps,
    target, temperature, threshold, time, var, variance, weight, weights
""")
"""Names with one of these mean something else: `acc_steps`, `reward_std`, `neg_log_loss`."""
TURNED = _terms_in("delta, diff, gradient, inverse, neg, negative")
"""The words of these that may still measure quality, in whichever direction."""
BOOKKEEPING = _terms_in("""
    batch, batches, beta, betas, bytes, clock, cpu, elapsed, eps, epsilon, epoch, epochs, eta,
    flops, flos, gb, gpu, iter, iteration, iterations, iters, learning rate, mb, mem, memory,
    mfu, momentum, params, rank, runtime, samples, seed, seen, speed, step, timestamp, tokens,
    util, utilization, utilisation, wall, world
""")
"""The words that, without a metric's name beside them, say how far or how fast the training is."""
VALIDATION = frozenset({"val", "valid", "validation", "eval", "test", "dev"})

_WORD = re.compile(r"(?<![a-z])(?:f[12]|r2)(?![a-z0-9])|[a-z]+")
_AT, _PER = re.compile(r"(?<=pass|hits)@|(?<=hit)@"), re.compile(r"\bper$")
_TERMS = LOSSES | LOWER | WEAK | HIGHER | SLOWNESS | SPEED | OTHER_QUANTITIES


def _one_of(terms: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(terms, key=len, reverse=True))})\b")


_TERM, _BOOKKEEPING = _one_of(_TERMS), _one_of(BOOKKEEPING)


def less_is_better(name: str, *, with_speed: bool = False) -> bool | None:
    """Return the direction by the words of the name, in any case and with any separators; None if
    unknown.

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


def is_quality(name: str) -> bool:
    """Return whether it may measure how good the model is, in a known direction or an unknown one.
    The learning rate, progress, speed and memory don't.
    """
    if less_is_better(name) is not None:
        return True
    if not (SPEED | SLOWNESS | OTHER_QUANTITIES - TURNED).isdisjoint(_terms(name)):
        return False
    return _BOOKKEEPING.search(_words(name)) is None


def is_share(name: str) -> bool:
    """Return whether higher is better, and there is a best value: 1, or 100 %."""
    return less_is_better(name) is False and not SHARES.isdisjoint(_terms(name))


def is_validation(name: str) -> bool:
    """Return whether the metric was measured on data that the model isn't trained on."""
    return not VALIDATION.isdisjoint(_WORD.findall(name.lower()))


def _terms(name: str) -> list[str]:
    """Return the known words and phrases of the name, in order."""
    return _TERM.findall(_words(name))


def _words(name: str) -> str:
    """Return the words in lower case, with a space between. `pass@8` is `pass at`; `per` at the end
    is the phoneme error rate.
    """
    words = " ".join(_WORD.findall(_AT.sub(" at ", name.lower())))
    return _PER.sub("phoneme error", words)
