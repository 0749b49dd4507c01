import math
import re
from pathlib import Path

import pytest

from engine.config import JobConfig
from engine.errors import ConfigError


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("parallelism", 0, "parallelism is 0, expected an integer of at least 1"),
        ("parallelism", True, "parallelism is True, expected an integer of at least 1"),
        ("batch_size", 1.5, "batch_size is 1.5, expected an integer of at least 1"),
        ("runtime", "mars", "runtime is 'mars', expected one of local, ray"),
        ("transport", "pigeon", "transport is 'pigeon', expected one of auto, shm, ipc, tcp"),
        ("encryption", "no", "encryption is 'no', expected True or False"),
        ("linger_ms", -1, "linger_ms is -1, expected a number of at least 0"),
        ("channel_window_bytes", 10, "channel_window_bytes is 10, expected an integer of at least"),
        ("port_range", "21000-20000", "port_range is '21000-20000', expected None or two ports"),
        ("port_range", "80-90", "port_range is '80-90', expected None or two ports"),
        ("port_range", "20000-70000", "port_range is '20000-70000', expected None or two"),
        ("port_range", 20000, "port_range is 20000, expected None or two ports from 1024"),
        ("resources", {"cpus": 2}, "resources is {'cpus': 2}, expected amounts of at least 0"),
        ("resources", {"*": {"slot": -1}}, "resources is {'*': {'slot': -1}}, expected amounts"),
        ("resources", {"*": {"GPUs": 1}}, "resources has the resource 'GPUs', expected 'gpus'"),
        ("name", "", "name is '', expected a string that is not empty"),
        ("ray_address", "", "ray_address is '', expected None or an address such as"),
        ("ray_address", 6379, "ray_address is 6379, expected None or an address such as"),
        ("ray_address", "auto", "ray_address is 'auto' and runtime is 'local', expected 'ray'"),
    ],
)
def test_a_value_that_cannot_work_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        JobConfig.of({setting: value})


def test_an_address_of_ray_is_for_ray_alone(tmp_path: Path) -> None:
    assert JobConfig(runtime="ray", ray_address="10.0.0.1:6379").ray_address == "10.0.0.1:6379"
    file = tmp_path / "job.toml"
    file.write_text('runtime = "ray"\nray_address = "auto"\n')
    with pytest.raises(ConfigError, match="expected 'ray'") as caught:
        JobConfig.read(file, runtime="local")
    assert caught.value.hint is not None
    assert "leave the address out (ray_address=None)" in caught.value.hint
    assert JobConfig.read(file, runtime="local", ray_address=None).ray_address is None


def test_an_unknown_setting_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'paralelism'") as caught:
        JobConfig.of({"paralelism": 2})
    assert "parallelism" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.toml", 'parallelism = 3\nruntime = "ray"\n'),
        ("job.yaml", "parallelism: 3\nruntime: ray\n"),
    ],
)
def test_settings_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert JobConfig.read(path) == JobConfig(parallelism=3, runtime="ray")
    assert JobConfig.read(path, parallelism=5).parallelism == 5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("job.ini", "", "ends in '.ini', expected .toml or .yaml"),
        ("job.toml", "parallelism = ", "is not valid"),
        ("job.yaml", "- 1", "holds no table"),
        ("job.yaml", "a: [", "is not valid"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)):
        JobConfig.read(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        JobConfig.read("/no/such/job.toml")


def test_what_rust_takes_where_it_is_not_told_is_what_a_job_has() -> None:
    rust = Path(__file__).parents[2] / "rust"
    found = re.findall(
        r"^            (\w+): (?:Duration::from_(\w+)\()?([\w *]+?)\)?,$",
        (rust / "transport/src/config.rs").read_text(),
        re.MULTILINE,
    )
    written = {name: value for name, _, value in found}
    units = {name: {"mins": 60}.get(unit, 1) for name, unit, _ in found}
    job = JobConfig()
    for name, value in {
        "window_bytes": job.channel_window_bytes,
        "send_buffer_bytes": job.send_buffer_bytes,
        "max_frame_bytes": job.max_record_bytes,
        "connect_timeout": job.connect_timeout_seconds,
        "reconnect_timeout": job.reconnect_timeout_seconds,
    }.items():
        assert math.prod(map(int, written[name].split(" * "))) * units[name] == value, name
    assert written["encryption"] == str(job.encryption).lower()
    for binding in ("network", "blob"):
        signatures = (rust / f"native/src/{binding}.rs").read_text()
        own = re.findall(
            r'^ +(\w+_seconds|\w+_bytes|\w+_[mu]s|encryption): "[^"]+" = (\w+)',
            signatures,
            re.MULTILINE,
        )
        assert own
        assert {given for _, given in own} == {"None"}, own


def test_a_name_that_is_nearly_one_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r"'paralelism'\n\nhint: did you mean 'parallelism'\? the"
    ):
        JobConfig.of({"paralelism": 2})
    with pytest.raises(ConfigError, match=r"'colour'\n\nhint: the settings are"):
        JobConfig.of({"colour": 2})
