from hypothesis import settings

# No deadline: a busy machine must not fail a test. A failure prints how to repeat it.
settings.register_profile("oka", deadline=None, print_blob=True)
settings.load_profile("oka")
