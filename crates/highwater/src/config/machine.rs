//! How much memory this process may use: the machine's, or what its control group allows. Reads only the kernel's files.

use std::path::Path;

/// What to assume where the kernel does not tell.
const UNKNOWN_BYTES: u64 = 2 << 30;

/// Bytes that this process may use.
pub fn memory_bytes() -> u64 {
    memory_below(Path::new("/"))
}

fn memory_below(root: &Path) -> u64 {
    let machine = read(&root.join("proc/meminfo")).and_then(|text| total_of(&text));
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mut least = machine.unwrap_or(UNKNOWN_BYTES);
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (folder, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            v1 if v1.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        least = least.min(limit_of(&root.join(folder), Path::new(path), file));
    }
    least
}

/// The least limit of a group and the groups around it. Inside a container the group's path may not exist below the
/// mount, so that its root is asked as well.
fn limit_of(mount: &Path, group: &Path, file: &str) -> u64 {
    let mut least = u64::MAX;
    for around in group.strip_prefix("/").unwrap_or(group).ancestors() {
        let limit = read(&mount.join(around).join(file)).and_then(|text| text.trim().parse::<u64>().ok());
        least = least.min(limit.filter(|bytes| *bytes > 0).unwrap_or(u64::MAX));
    }
    least
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        memory_below(root.path())
    }

    #[test]
    fn the_least_limit_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
        assert_eq!(machine(&[]), UNKNOWN_BYTES);
        assert_eq!(machine(&[meminfo]), 16 << 20);
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(machine(&[meminfo, v2, ("sys/fs/cgroup/a/b/memory.max", "max\n")]), 16 << 20);
        assert_eq!(machine(&[meminfo, v2, ("sys/fs/cgroup/a/memory.max", "4194304\n")]), 4 << 20);
        assert_eq!(machine(&[meminfo, v2, ("sys/fs/cgroup/memory.max", "2097152\n")]), 2 << 20);
        let v1 = ("proc/self/cgroup", "5:cpu,memory:/x\n4:pids:/x\n");
        assert_eq!(machine(&[meminfo, v1, ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1048576")]), 1 << 20);
        let unlimited = ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712");
        assert_eq!(machine(&[meminfo, v1, unlimited]), 16 << 20);
    }
}
