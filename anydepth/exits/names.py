"""The names and forms of the policies; nothing here needs torch, so that the command line can
show them at once."""

POLICY_FORMS = {
    "fixed": "fixed:N",
    "uniform": "uniform[:SEED]",
    "sequence": "sequence",
    "multinomial": "multinomial",
    "geometric": "geometric[:TAU,...]",
    "confidence": "confidence:TAU,...",
    "margin": "margin:TAU,...",
    "similarity": "similarity:TAU,...",
    "shortlist": "shortlist:K:TAU,...",
}
THRESHOLD_FAMILIES = ("geometric", "confidence", "margin", "similarity", "shortlist")
