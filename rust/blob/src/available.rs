//! How much memory may still be taken: of the machine, and of the container around this process.

use std::fs;
use std::path::Path;

/// Bytes that can be taken without pushing anyone out; none if the system does not say.
pub(crate) fn available_memory() -> Option<u64> {
    if oka_ipc::IS_PORTABLE {
        return None;
    }
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| Some(field(&text, "MemAvailable:")? * 1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let container = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        match controllers {
            "" => of_group(Path::new("/sys/fs/cgroup"), path, &VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                of_group(Path::new("/sys/fs/cgroup/memory"), path, &VERSION_1)
            }
            _ => None,
        }
    });
    machine.into_iter().chain(container).min()
}

/// The names of a group's files.
struct Names {
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static str,
}

/// The least that a group or one around it leaves.
fn of_group(root: &Path, path: &str, names: &Names) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    groups
        .filter_map(|group| {
            let number = |name| {
                fs::read_to_string(group.join(name))
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
            };
            let (limit, usage): (u64, u64) = (number(names.limit)?, number(names.usage)?);
            let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            // Files that were read once are dropped before anyone is refused memory.
            let files = field(&statistics, names.reclaimable).unwrap_or_default();
            Some(limit.saturating_sub(usage.saturating_sub(files)))
        })
        .min()
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_around_counts() {
        let root = std::env::temp_dir().join(format!("oka-groups-{}", std::process::id()));
        let inner = root.join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        let write = |folder: &Path, limit: &str, usage: &str, files: &str| {
            fs::write(folder.join("memory.max"), limit).unwrap();
            fs::write(folder.join("memory.current"), usage).unwrap();
            fs::write(
                folder.join("memory.stat"),
                format!("anon 1\ninactive_file {files}\n"),
            )
            .unwrap();
        };
        write(&root.join("outer"), "1000\n", "700\n", "100");
        write(&inner, "max\n", "300\n", "0");
        assert_eq!(of_group(&root, "/outer/inner", &VERSION_2), Some(400));
        write(&inner, "350\n", "300\n", "0");
        assert_eq!(of_group(&root, "/outer/inner", &VERSION_2), Some(50));
        assert_eq!(of_group(&root, "/elsewhere", &VERSION_2), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn this_machine_has_some() {
        let available = available_memory();
        assert!(oka_ipc::IS_PORTABLE || available.is_some_and(|bytes| bytes > 0));
    }
}
