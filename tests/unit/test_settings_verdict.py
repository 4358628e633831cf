"""Secret, Setting and status: which of them decides, and what is written where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_op.operator.settings.catalog import CATALOG
from gpustack_op.operator.settings.verdict import Seen, Verdict, judge

MANUAL = CATALOG["node-management-manual"]
GRACE = CATALOG["node-labels-grace-period"]
BAD_KEY = 'key node-management-manual of Secret gpustack-settings: "maybe" is no boolean; write true or false'
BAD_SPEC = 'spec.value: "perhaps" is no boolean; write true or false'


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        pytest.param(
            Seen(), Verdict(value="false", spec="false", store="false"), id="nothing is written anywhere: the seed"
        ),
        pytest.param(
            Seen(stored=b"true"), Verdict(value="true", spec="true"), id="the Secret alone: a Setting is made from it"
        ),
        pytest.param(
            Seen(stored=b"true", spec="true", in_force="true"), Verdict(value="true", spec="true"), id="settled"
        ),
        pytest.param(
            Seen(stored=b"true", spec="false", in_force="false"),
            Verdict(value="true", spec="true"),
            id="the Secret was edited",
        ),
        pytest.param(
            Seen(stored=b"true\n", spec="false", in_force="false"),
            Verdict(value="true", spec="true"),
            id="blanks in the Secret do not matter",
        ),
        pytest.param(
            Seen(stored=b"false", spec="true", in_force="false"),
            Verdict(value="true", spec="true", store="true"),
            id="the Setting was edited",
        ),
        pytest.param(
            Seen(stored=b"false", spec=" true ", in_force="false"),
            Verdict(value="true", spec="true", store="true"),
            id="blanks in the Setting are taken off",
        ),
        pytest.param(
            Seen(stored=b"true", spec="true", in_force="false"),
            Verdict(value="true", spec="true"),
            id="the edit is stored, the status has yet to follow",
        ),
        pytest.param(
            Seen(stored=b"t", spec="true", in_force="false", copied="true"),
            Verdict(value="t", spec="t"),
            id="a copy is no edit: the Secret changed again before the status followed",
        ),
        pytest.param(
            Seen(stored=b"t", spec="f", in_force="false", copied="true"),
            Verdict(value="f", spec="f", store="f"),
            id="an edit after a copy is an edit",
        ),
        pytest.param(
            Seen(spec="true", in_force="true"),
            Verdict(value="false", spec="false", store="false"),
            id="the key was removed: the seed",
        ),
        pytest.param(
            Seen(spec="true"),
            Verdict(value="true", spec="true", store="true"),
            id="a Setting written before the first start is an edit",
        ),
        pytest.param(
            Seen(stored=b"true", in_force="true"), Verdict(value="true", spec="true"), id="an emptied spec is filled"
        ),
        pytest.param(
            Seen(stored=b"maybe", spec="true", in_force="true"),
            Verdict(value="true", spec="true", message=f'{BAD_KEY}. In force is "true".'),
            id="a bad key keeps the last good value",
        ),
        pytest.param(
            Seen(stored=b"maybe"),
            Verdict(value="false", spec="false", message=f'{BAD_KEY}. In force is "false".'),
            id="a bad key without a last good value is the default",
        ),
        pytest.param(
            Seen(stored=b"maybe", spec="false", in_force="true"),
            Verdict(value="false", spec="false", store="false"),
            id="a good edit replaces a bad key",
        ),
        pytest.param(
            Seen(stored=b"\xff\xfe", spec="true", in_force="true"),
            Verdict(
                value="true",
                spec="true",
                message="key node-management-manual of Secret gpustack-settings: its bytes are no UTF-8 text. "
                'In force is "true".',
            ),
            id="bytes that are no text keep the last good value",
        ),
        pytest.param(
            Seen(stored=b"true", spec="perhaps", in_force="true"),
            Verdict(value="true", spec="perhaps", message=f'{BAD_SPEC}. In force is "true".'),
            id="a bad edit is left for its author to see",
        ),
        pytest.param(
            Seen(stored=b"false", spec="perhaps", in_force="true"),
            Verdict(value="false", spec="false"),
            id="a newer value from the Secret overrules a bad edit",
        ),
        pytest.param(
            Seen(stored=b"true", spec="perhaps"),
            Verdict(value="true", spec="perhaps", message=f'{BAD_SPEC}. In force is "true".'),
            id="a bad Setting made by hand",
        ),
        pytest.param(
            Seen(stored=b"maybe", spec="perhaps", in_force="true"),
            Verdict(value="true", spec="perhaps", message=f'{BAD_SPEC}; {BAD_KEY}. In force is "true".'),
            id="both are bad",
        ),
        pytest.param(
            Seen(stored=b"maybe", spec="no longer legal", in_force="no longer legal"),
            Verdict(value="false", spec="false", message=f'{BAD_KEY}. In force is "false".'),
            id="a last value that no longer parses is none",
        ),
    ],
)
def test_verdict(seen: Seen, verdict: Verdict) -> None:
    assert judge(MANUAL, seen, "false") == verdict


def test_a_missing_key_gets_the_seed_and_a_bad_one_the_built_in_default() -> None:
    assert judge(GRACE, Seen(), "5m").value == "5m"
    assert judge(GRACE, Seen(stored=b"10x"), "5m").value == "60s"


def test_a_blank_value_is_called_blank() -> None:
    verdict = judge(CATALOG["container-registry"], Seen(stored=b"a\nb", spec="", in_force=""), "")
    assert verdict.message.endswith("In force is the blank value.")


texts = st.sampled_from([None, "true", "false", "t", " 1 ", "maybe", ""])
stored = st.one_of(st.none(), st.sampled_from([b"true", b"false\n", b"maybe", b"\xff"]))
states = st.builds(Seen, stored=stored, spec=texts, in_force=texts, copied=texts)


@settings(deadline=None)
@given(states)
def test_what_takes_effect_always_parses(seen: Seen) -> None:
    assert MANUAL.refusal(judge(MANUAL, seen, "true").value) is None


@settings(deadline=None)
@given(states)
def test_a_verdict_carried_out_is_confirmed(seen: Seen) -> None:
    first = judge(MANUAL, seen, "true")
    written = first.store.encode() if first.store is not None else seen.stored
    settled = Seen(stored=written, spec=first.spec, in_force=first.value)
    second = judge(MANUAL, settled, "true")
    assert (second.value, second.spec, second.store, second.message) == (first.value, first.spec, None, first.message)
