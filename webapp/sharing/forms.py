"""The form of a new link."""

from __future__ import annotations

from django import forms

from webapp.sharing.models import ShareLink

ENDS = (("7", "In 7 days"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))
DEFAULT_DAYS = "30"


class ShareForm(forms.Form):
    """Form of a link to a run or its report, or of one to a comparison."""

    kind = forms.ChoiceField(label="Show", choices=[])
    days = forms.ChoiceField(label="Ends", choices=ENDS, initial=DEFAULT_DAYS)

    def __init__(self, *args: object, is_comparison: bool, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.fields["kind"].choices = (  # type: ignore[attr-defined]
            [(ShareLink.COMPARISON, "The comparison")]
            if is_comparison
            else [(ShareLink.RUN, "The run"), (ShareLink.REPORT, "Its report")]
        )
        self.fields["kind"].initial = self.fields["kind"].choices[0][0]  # type: ignore[attr-defined]
