"""How much the records count in the posterior that draws come from, in plain words."""

from __future__ import annotations

from vestry.releases import Certificate
from vestry.report.formatting import number, roughly
from vestry.report.templates import Content, paragraph


def weight(certificate: Certificate) -> str:
    """Say how a posterior was weakened for privacy, as half a sentence; empty where it was not, or not in this way."""
    value = certificate.value
    if certificate.parameter == "likelihood_power" and value < 1:
        return f"drawn from a posterior in which each record counts {roughly(value)}"
    if certificate.parameter == "prior_scale" and value < 1:
        return f"drawn from a posterior whose prior counts {number(1 / value)} times as much as the declared one"
    return ""


def weight_parts(certificate: Certificate) -> list[Content]:
    """Write the same as a paragraph of a page, if there is something to say."""
    said = weight(certificate)
    return [paragraph(f"What was released was {said}.")] if said else []
