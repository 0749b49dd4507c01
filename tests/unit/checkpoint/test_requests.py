"""Requests to a running job through its folder."""

import threading
import time

import pytest

from engine.checkpoint import (
    Answer,
    CheckpointLog,
    Request,
    Requests,
)
from engine.errors import CheckpointError, ConfigError


def ask(storage, request, during, **settings):
    """Ask, calling `during` each time that the one who asks waits."""
    time = [0.0]

    def sleep(seconds):
        time[0] += seconds
        during()

    return Requests(storage).ask(request, sleep=sleep, now=lambda: time[0], **settings)


def test_request_is_taken_once_and_answered(storage):
    seen = []

    def master():
        for request in Requests(storage).take():
            seen.append(request)
            Requests(storage).answer(request, Answer(epoch=7))

    request = Request("before-upgrade", stop="drain")
    assert ask(storage, request, master) == 7
    assert [(each.savepoint, each.stop, each.parallelism) for each in seen] == [
        ("before-upgrade", "drain", None)
    ]
    assert storage.list("requests") == storage.list("answers") == []


def test_nobody_is_there(storage):
    with pytest.raises(CheckpointError, match="no running job took the request up in 30 s"):
        ask(storage, Request("a"), lambda: None)
    assert storage.list("") == []


def test_job_dies_with_the_request(storage):
    with pytest.raises(CheckpointError, match="no answer in 600 s"):
        ask(storage, Request("a"), Requests(storage).take)
    assert storage.list("") == []


def test_new_driver_refuses_what_was_asked_of_the_old(storage):
    with pytest.raises(CheckpointError, match=r"made no savepoint: .* began anew"):
        ask(storage, Request("a", stop="now"), lambda: CheckpointLog(storage).claim())


@pytest.mark.parametrize("name", ["", "7", "latest", "a/b", "-x", ".", "é", "x" * 101])
def test_names(name):
    with pytest.raises(ConfigError, match="the savepoint's name"):
        Request(name)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"savepoint": None}, "name is None"),
        ({"savepoint": 5}, "name is 5"),
        ({"stop": "bogus"}, "stop is 'bogus', expected 'no', 'now' or 'drain'"),
        *(
            ({"parallelism": count}, f"go on with is {count!r}, expected a whole number")
            for count in (0, -1, True, "2", 2.5)
        ),
    ],
)
def test_what_nobody_can_do_is_not_asked(given, told):
    with pytest.raises(ConfigError, match=told):
        Request(**{"savepoint": "a", **given})


def test_who_waits_for_a_short_time_hears_that_nobody_is_there(storage):
    with pytest.raises(CheckpointError, match="no running job took the request up in 1 s"):
        ask(storage, Request("a"), lambda: None, answered_within=1.0)
    assert not Requests(storage).is_answered(within=0.1)


def test_two_threads_ask_at_once(storage):
    box = Requests(storage)
    answers = {}

    def one(name):
        answers[name] = Requests(storage).ask(Request(name))

    threads = [threading.Thread(target=one, args=(f"s{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for request in box.take():
            box.answer(request, Answer(epoch=int(request.savepoint[1:])))
    assert answers == {f"s{number}": number for number in range(3)}


def test_new_driver_leaves_the_answers_of_the_old(storage):
    """Who asked may look a moment later."""

    def master():
        for request in Requests(storage).take():
            Requests(storage).answer(request, Answer(epoch=7))
        CheckpointLog(storage).claim()

    assert ask(storage, Request("a"), master) == 7


def test_answers_that_nobody_fetched_go(storage, monkeypatch):
    Requests(storage).answer(Request("a", id="1"), Answer(epoch=7))
    CheckpointLog(storage).claim()
    assert len(storage.list("answers")) == 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    CheckpointLog(storage).claim()
    assert storage.list("answers") == []
