from hypothesis import settings

from tests.part import examples

# No deadline: a busy machine must not fail a test. The same examples in every run: what a run of
# `--hypothesis-profile=default` finds becomes a test of its own. A failure prints how to repeat it.
settings.register_profile(
    "oka", deadline=None, derandomize=True, print_blob=True, max_examples=examples(100)
)
settings.load_profile("oka")
